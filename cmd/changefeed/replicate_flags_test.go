package main

import (
	"bufio"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"
)

// The three accounts of a replication have flags and variables of their own. The advice for
// an error must name those of the account that failed, and no others.
func TestReplicateNamesTheFlagsOfTheAccountThatFailed(t *testing.T) {
	a := newAccount(t)
	wrong := base64.StdEncoding.EncodeToString([]byte("a key that no account has"))
	untrusted := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(untrusted.Close)
	for _, side := range []string{"from", "to", "lease"} {
		env := "COSMOS_" + strings.ToUpper(side) + "_"
		for _, c := range []struct{ name, endpoint, key, want string }{
			{"certificate", untrusted.URL, a.key, "use --" + side + "-certificate FILE (" + env + "CERTIFICATE);"},
			{"key", a.endpoint, wrong, "check --" + side + "-key-file, --" + side + "-key or " + env + "KEY ("},
			{"scheme", strings.Replace(a.endpoint, "http:", "https:", 1), a.key, "use http:// in --" + side + "-endpoint\n"},
			{"certificate file", a.endpoint, a.key, "--" + side + "-certificate FILE (" + env + "CERTIFICATE): open no.crt"},
		} {
			t.Run(side+" "+c.name, func(t *testing.T) {
				args := replicateArgs(a, side, c.endpoint, c.key)
				if c.name == "certificate file" {
					args = append(args, "--"+side+"-certificate", "no.crt")
				}
				code, out, errOut := command(t, args...)
				if code == exitOK || !strings.Contains(errOut, c.want) {
					t.Errorf("status %d: %s%s; want %q", code, out, errOut, c.want)
				}
				if strings.Contains(errOut, " --key") || strings.Contains(errOut, " --endpoint") || strings.Contains(errOut, "COSMOS_KEY") {
					t.Errorf("flags of no account: %s", errOut)
				}
			})
		}
		t.Run(side+" unreachable", func(t *testing.T) {
			if got, want := firstRetry(t, replicateArgs(a, side, "http://127.0.0.1:1/", a.key)...), "or check --"+side+"-endpoint"; !strings.HasPrefix(got, "requests fail; retrying: ") || !strings.Contains(got, want) {
				t.Errorf("%s; want %q", got, want)
			}
		})
	}
}

// replicateArgs returns the arguments of a replication within a, one side of which has
// another endpoint or key. Its containers exist, so that every account gets a request.
func replicateArgs(a *account, side, endpoint, key string) []string {
	args := []string{"replicate", "--from", "shop/orders", "--to", "shop/leases", "--leases", "others"}
	for _, s := range []string{"from", "to", "lease"} {
		e, k := a.endpoint, a.key
		if s == side {
			e, k = endpoint, key
		}
		args = append(args, "--"+s+"-endpoint", e, "--"+s+"-key", k)
	}
	return args
}

// firstRetry runs a replication until it reports a retry, and returns that line.
func firstRetry(t *testing.T, args ...string) string {
	t.Helper()
	cmd := process(t, args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := ""
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if line = lines.Text(); strings.Contains(line, "retrying") {
			break
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it has failed or was interrupted, and line tells which
	return line
}

// A side may get its account from a URL in --from, or from COSMOS_ENDPOINT. Replicate has
// no --endpoint, and its --key is a partition key, so neither may be in the advice.
func TestReplicateNamesWhereASideWithoutItsOwnFlagsHasItsAccountFrom(t *testing.T) {
	a := newAccount(t)
	wrong := base64.StdEncoding.EncodeToString([]byte("a key that no account has"))
	tls := strings.Replace(a.endpoint, "http:", "https:", 1)
	for _, c := range []struct {
		endpoint, key string
		args          []string
		want          string
	}{
		{"", "", []string{"--from", tls + "/shop/orders"}, "use http:// in --from\n"},
		{"", "", []string{"--from", "http://127.0.0.1:99999/shop/orders"}, "--from is \"http://127.0.0.1:99999/\": its port"},
		{a.endpoint, wrong, []string{"--from", "shop/orders"}, "check COSMOS_KEY or COSMOS_KEY_FILE ("},
		{tls, wrong, []string{"--from", "shop/orders"}, "use http:// in COSMOS_ENDPOINT\n"},
	} {
		t.Setenv("COSMOS_ENDPOINT", c.endpoint)
		t.Setenv("COSMOS_KEY", c.key)
		args := slices.Concat([]string{"replicate", "--to", "shop/leases", "--to-endpoint", a.endpoint, "--to-key", a.key}, c.args)
		if code, _, errOut := command(t, args...); code == exitOK || !strings.Contains(errOut, c.want) {
			t.Errorf("%v: status %d: %s; want %q", c, code, errOut, c.want)
		}
	}
}

// Both sides and the leases have the account of the variables without a prefix, although one
// side names it by its URL.
func TestReplicateUsesTheKeyOfTheVariablesForTheirAccount(t *testing.T) {
	a := newAccount(t)
	a.order(1)
	t.Setenv("COSMOS_ENDPOINT", a.endpoint)
	t.Setenv("COSMOS_KEY", a.key)
	for _, args := range [][]string{
		{"--from", a.endpoint + "/shop/orders", "--to", "shop/copy"},
		{"--from", "shop/orders", "--to", strings.Replace(a.endpoint, "localhost", "LOCALHOST", 1) + "/shop/copy"},
	} {
		args = append([]string{"replicate", "--create", "--until-caught-up", "--leases", "positions"}, args...)
		if code, out, errOut := command(t, args...); code != exitOK {
			t.Errorf("%v: status %d: %s%s", args, code, out, errOut)
		}
	}
}

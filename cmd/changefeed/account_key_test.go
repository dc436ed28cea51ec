package main

import (
	"path/filepath"
	"strings"
	"testing"
)

// A key for an account that nothing names is not used. A command that ignored it would work
// with another account, and the user would not learn that the key is wrong.
func TestAKeyWithoutItsAccountIsRefusedByItsName(t *testing.T) {
	a := newAccount(t)
	file := filepath.Join(t.TempDir(), "key")
	write(t, file, a.key)
	ls := []string{"leases", "ls", "--database", "shop", "--container", "orders"}
	copying := []string{"replicate", "--from", "shop/orders", "--to", "shop/copy"}
	for _, c := range []struct {
		args     []string
		variable string // the variable whose value is !!
		flags    []string
		want     string
	}{
		{args: ls, variable: "COSMOS_LEASE_KEY", want: "COSMOS_LEASE_KEY is given, but its account is missing: use --lease-endpoint or COSMOS_LEASE_ENDPOINT; "},
		{args: ls, variable: "COSMOS_LEASE_KEY_FILE", want: "COSMOS_LEASE_KEY_FILE is given, but its account"},
		{args: ls, flags: []string{"--lease-key", "!!"}, want: "--lease-key is given, but its account"},
		{args: copying, variable: "COSMOS_TO_KEY", want: "COSMOS_TO_KEY is given, but its account is missing: use --to-endpoint or COSMOS_TO_ENDPOINT; "},
		{args: copying, variable: "COSMOS_FROM_KEY", want: "COSMOS_FROM_KEY is given, but its account"},
		{args: copying, variable: "COSMOS_LEASE_KEY", want: "COSMOS_LEASE_KEY is given, but its account"},
		{args: copying, flags: []string{"--lease-key", "!!"}, want: "--lease-key is given, but its account"},
		{args: copying, flags: []string{"--to-key", "eA=="}, want: "--to-key is given, but its account"},
		{args: copying, flags: []string{"--from-key-file", file}, want: "--from-key-file is given, but its account"},
		{args: copying, flags: []string{"--to-key", "eA==", "--data", shop(t, 0)}, want: "--to-key is given, but its account"},
		{args: copying, flags: []string{"--lease-endpoint", a.endpoint, "--lease-key", "!!"}, want: "--lease-key is invalid: "},
		{args: copying, flags: []string{"--to-endpoint", a.endpoint, "--to-key", "!!"}, want: "--to-key is invalid: "},
	} {
		t.Run(c.want, func(t *testing.T) {
			t.Setenv("COSMOS_ENDPOINT", a.endpoint)
			t.Setenv("COSMOS_KEY", a.key)
			if c.variable != "" {
				t.Setenv(c.variable, "!!")
			}
			if code, out, errOut := command(t, append(c.args[:len(c.args):len(c.args)], c.flags...)...); code != exitUsage || out != "" || !strings.HasPrefix(errOut, "changefeed: "+c.want) {
				t.Errorf("%v: status %d: %s%s; want %q", c.flags, code, out, errOut, c.want)
			}
		})
	}
	t.Setenv("COSMOS_KEY", a.key)
	if code, _, errOut := command(t, ls...); code != exitUsage || !strings.Contains(errOut, "COSMOS_KEY is given, but no account is named; use --endpoint URL") {
		t.Errorf("status %d: %s", code, errOut)
	}
	// A store needs no key, and those of the environment are for other commands.
	t.Setenv("COSMOS_LEASE_KEY", "!!")
	if code, _, errOut := leasesOf(t).run("ls"); code != exitOK {
		t.Errorf("status %d: %s", code, errOut)
	}
}

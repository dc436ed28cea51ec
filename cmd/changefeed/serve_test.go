package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// served starts a process of `changefeed serve`, waits until it is ready, and returns its
// endpoint. The function end sends a signal, and returns the exit code and the error
// output.
func served(t *testing.T, args ...string) (endpoint string, end func(os.Signal) (code int, errOut string)) {
	t.Helper()
	cmd := process(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	var errOut bytes.Buffer
	cmd.Stderr = &errOut
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var banner strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		banner.WriteString(lines.Text() + "\n")
		if lines.Text() == "ready" {
			break
		}
	}
	m := regexp.MustCompile(`(?m)^endpoint +(\S+)$`).FindStringSubmatch(banner.String())
	if m == nil {
		t.Fatalf("it prints no endpoint: %s%s", banner.String(), errOut.String())
	}
	return m[1], func(s os.Signal) (int, string) {
		t.Helper()
		if err := cmd.Process.Signal(s); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait() // the exit status contains the error
		return cmd.ProcessState.ExitCode(), errOut.String()
	}
}

func TestServeEndsInGoodOrderBySignal(t *testing.T) {
	for _, s := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		dir := t.TempDir()
		_, end := served(t, "--tls", "off", "--data", dir)
		code, _, errOut := command(t, "serve", "--listen", "127.0.0.1:0", "--data", dir)
		if code != exitFailed || !regexp.MustCompile(`in use by process \d+; wait for it to end, or stop it`).MatchString(errOut) {
			t.Errorf("a second server: status %d, %s", code, errOut)
		}
		if code, errOut := end(s); code != exitOK {
			t.Errorf("%s: status %d, %s", s, code, errOut)
		}
		db, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatalf("its store: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestServeWithAnInitFileHasItsContainers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "shop.json")
	if err := os.WriteFile(path, []byte(`{"databases":[{"id":"shop","containers":[{"id":"orders","partitionKey":{"paths":["/pk"]},"throughput":20000}]}]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	endpoint, end := served(t, "--tls", "off", "--init", path)
	code, out, errOut := command(t, "partitions", "--endpoint", endpoint, "--database", "shop", "--container", "orders", "ls")
	if code != exitOK || strings.Count(out, "\n") != 3 {
		t.Errorf("partitions ls: status %d, %s%s; want two partitions", code, out, errOut)
	}
	if code, errOut := end(syscall.SIGTERM); code != exitOK {
		t.Errorf("status %d, %s", code, errOut)
	}
	if code, _, errOut := command(t, "serve", "--init", path+"x"); code != exitUsage || !strings.Contains(errOut, "--init: cannot read the file") {
		t.Errorf("without the file: status %d, %s", code, errOut)
	}
}

func TestPartitionsOfARunningServerAreListedSplitAndMerged(t *testing.T) {
	dir := t.TempDir()
	checkStore(t, dir, func(db *store.DB) {
		changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/pk"}})
	})
	endpoint, end := served(t, "--tls", "off", "--data", dir)
	call := func(wantCode int, args ...string) string {
		t.Helper()
		code, out, errOut := command(t, append([]string{"partitions", "--endpoint", endpoint, "--database", "shop", "--container", "orders"}, args...)...)
		if code != wantCode {
			t.Errorf("%v: status %d, %s%s", args, code, out, errOut)
		}
		return out + errOut
	}
	ids := func() string {
		t.Helper()
		var list struct{ Partitions []struct{ ID string } }
		if err := json.Unmarshal([]byte(call(exitOK, "ls", "--json")), &list); err != nil {
			t.Fatal(err)
		}
		var b strings.Builder
		for _, p := range list.Partitions {
			b.WriteString(p.ID + " ")
		}
		return b.String()
	}
	if out := call(exitOK, "ls", "--json"); !strings.Contains(out, `"parents": []`) {
		t.Errorf("ls of the partition that a container was made with prints %s", out)
	}
	if out := call(exitOK, "split", "0", "--at", "2f"); !regexp.MustCompile(`(?m)^1 +-2F +0$`).MatchString(out) {
		t.Errorf("split prints %s", out)
	}
	if out := call(exitOK, "ls"); !regexp.MustCompile(`(?m)^2 +2F-FF +0 +0 +0 +0$`).MatchString(out) {
		t.Errorf("ls prints %s", out)
	}
	call(exitOK, "split", "2")
	if got := ids(); got != "1 3 4 " {
		t.Errorf("partitions %s", got)
	}
	call(exitOK, "merge", "4", "3")
	call(exitOK, "merge", "1")
	if got := ids(); got != "6 " {
		t.Errorf("partitions %s", got)
	}
	if out := call(exitFailed, "split", "0"); !strings.Contains(out, "there is no partition \"0\" now; the live partitions are 6") {
		t.Errorf("a partition that is gone: %s", out)
	}
	if out := call(exitFailed, "ls", "--key", "b3RoZXI="); !strings.Contains(out, "rejects the key") {
		t.Errorf("another key: %s", out)
	}
	if out := call(exitFailed, "ls", "--endpoint", strings.Replace(endpoint, "http:", "https:", 1)); !strings.Contains(out, "use http://") {
		t.Errorf("TLS where there is none: %s", out)
	}
	if out := call(exitFailed, "ls", "--database", "shops"); !strings.Contains(out, "container shops/orders does not exist; the existing ones are shop/orders") {
		t.Errorf("no database: %s", out)
	}
	if out := call(exitFailed, "split", "0", "--container", "order"); !strings.Contains(out, "container shop/order does not exist; the existing ones are shop/orders") {
		t.Errorf("no container: %s", out)
	}
	if code, errOut := end(syscall.SIGTERM); code != exitOK {
		t.Errorf("status %d, %s", code, errOut)
	}
	if out := call(exitFailed, "ls"); !strings.Contains(out, "start `changefeed serve`") {
		t.Errorf("no server: %s", out)
	}
}

func TestPartitionsTrustsACertificateThatItIsGiven(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	endpoint, end := served(t, "--data", dir)
	args := []string{"partitions", "ls", "--endpoint", endpoint, "--database", "shop", "--container", "orders"}
	if _, _, errOut := command(t, args...); !strings.Contains(errOut, "use --certificate FILE") {
		t.Errorf("without it: %s", errOut)
	}
	if _, _, errOut := command(t, append(args, "--certificate", dir+"/localhost.crt")...); !strings.Contains(errOut, "container shop/orders does not exist") {
		t.Errorf("with it: %s", errOut)
	}
	if code, errOut := end(syscall.SIGTERM); code != exitOK {
		t.Errorf("status %d, %s", code, errOut)
	}
}

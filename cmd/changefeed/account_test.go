package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/changefeedtest"
	rest "github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// account is a server on a local port, over a store in memory. Commands use it as they
// would use an account in Azure.
type account struct {
	t             *testing.T
	endpoint, key string
	db            *store.DB
	orders        *store.Container
	leases        *store.Container
}

// accounts counts the accounts of the tests. The count makes each account's key unique.
var accounts atomic.Int64

func newAccount(t *testing.T) *account {
	t.Helper()
	a := &account{t: t, db: changefeedtest.NewStore(t), key: base64.StdEncoding.EncodeToString(fmt.Appendf(nil, "a key that nobody prints, of account %d", accounts.Add(1)))}
	handler, err := rest.New(a.db, rest.Options{Keys: []string{a.key}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	// The host is localhost, as for a store that is opened in the process. Lease ids
	// contain the host. So leases that a test writes in the process have the ids that
	// commands expect.
	a.endpoint = strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	ctx := t.Context()
	if _, err := a.db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "shop"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		into       **store.Container
		properties storetype.ContainerProperties
	}{
		{&a.orders, storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}, Partitions: 2}},
		{&a.leases, storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}}},
	} {
		if *c.into, err = a.db.CreateContainer(ctx, "shop", c.properties); err != nil {
			t.Fatal(err)
		}
	}
	return a
}

func (a *account) order(i int) {
	a.t.Helper()
	if _, err := a.orders.Upsert(a.t.Context(), nil, fmt.Appendf(nil, `{"id":"%d","customer":"c%d"}`, i, i), storetype.WriteOptions{}); err != nil {
		a.t.Fatal(err)
	}
}

// run runs a command of changefeed on the account. The account key is in a file.
func (a *account) run(args ...string) (code int, out, errOut string) {
	a.t.Helper()
	file := filepath.Join(a.t.TempDir(), "key")
	write(a.t, file, a.key+"\n")
	return command(a.t, append(args, "--endpoint", a.endpoint, "--key-file", file, "--database", "shop", "--container", "orders")...)
}

func TestTailResumesAfterItsPositionThroughSplits(t *testing.T) {
	a := newAccount(t)
	position := filepath.Join(t.TempDir(), "position")
	for round := range 3 {
		for i := range 10 {
			a.order(10*round + i)
		}
		code, out, errOut := a.run("tail", "--position", position)
		if code != exitOK || errOut != "" || strings.Count(out, "\n") != 10 {
			t.Errorf("round %d: status %d: %s%s", round, code, out, errOut)
		}
		for line := range strings.Lines(out) {
			var doc struct {
				ID int `json:",string"`
			}
			if err := json.Unmarshal([]byte(line), &doc); err != nil || doc.ID/10 != round {
				t.Errorf("round %d: %s%v", round, line, err)
			}
		}
		live, err := a.orders.Partitions(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := a.orders.Split(t.Context(), live[0].ID, ""); err != nil {
			t.Fatal(err)
		}
	}
	write(t, position, "nonsense")
	if code, out, errOut := a.run("tail", "--position", position); code != exitFailed || out != "" || strings.Count(errOut, "\n") != 1 {
		t.Errorf("a damaged position is not reported in a line: status %d: %s%s", code, out, errOut)
	}
}

// `tail` with a position file that cannot be written must fail before it prints a change.
// Otherwise the next run would print the change again.
func TestTailChecksThePositionFileBeforeItPrints(t *testing.T) {
	a := newAccount(t)
	a.order(1)
	dir := filepath.Join(t.TempDir(), "no such directory")
	code, out, errOut := a.run("tail", "--position", filepath.Join(dir, "position"))
	if code != exitUsage || out != "" || !strings.Contains(errOut, "--position: ") || !strings.Contains(errOut, dir) {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
	position := filepath.Join(t.TempDir(), "position")
	if code, _, errOut := a.run("tail", "--mode", "avad", "--from", "now", "--position", position); code != exitFailed || strings.Count(errOut, "\n") != 1 {
		t.Errorf("a failed read is not reported in a line: status %d: %s", code, errOut)
	}
	if left, err := os.ReadDir(filepath.Dir(position)); err != nil || len(left) != 0 {
		t.Errorf("it leaves %v, %v", left, err)
	}
}

func TestTailFollowsAnAccountThroughASplit(t *testing.T) {
	a := newAccount(t)
	file := filepath.Join(t.TempDir(), "key")
	write(t, file, a.key)
	cmd := process(t, "tail", "--follow", "--interval", "50ms", "--database", "shop", "--container", "orders")
	cmd.Env = append(cmd.Env, "COSMOS_ENDPOINT="+a.endpoint, "COSMOS_KEY_FILE="+file)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var errOut strings.Builder
	cmd.Stderr = &errOut
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(out)
	for i := range 30 {
		a.order(i)
		var doc struct{ ID string }
		if err := lines.Decode(&doc); err != nil || doc.ID != fmt.Sprint(i) {
			t.Fatalf("order %d: %v, %v: %s", i, doc, err, errOut.String())
		}
		if i == 10 {
			if _, err := a.orders.Split(t.Context(), "0", ""); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("interrupted: %v: %s", err, errOut.String())
	}
}

// No command may print the account key, even if it fails, because the key gives full
// access.
func TestNoCommandPrintsAKey(t *testing.T) {
	a := newAccount(t)
	a.order(1)
	connection := "AccountEndpoint=" + a.endpoint + ";AccountKey=" + a.key + ";"
	wrong := base64.StdEncoding.EncodeToString([]byte("a key of another account that nobody prints"))
	container := []string{"--database", "shop", "--container", "orders"}
	commands := [][]string{{"tail"}, {"partitions", "ls"}, {"partitions", "split", "7"}}
	for _, c := range [][]string{
		{"ls"},
		{"ls", "--json"},
		{"check"},
		{"check", "--repair", "--yes"},
		{"release", "--all"},
		{"reset", "--all", "--to", "now"},
		{"delete", "0"},
		{"export"},
		{"import", "no such file"},
		{"convert", "--to", "java-latest-version"},
	} {
		commands = append(commands, append([]string{"leases"}, c...))
	}
	// Every command is also run with its name alone, so that a command that is not in the
	// list is tested, too.
	var add func(c *cobra.Command, path []string)
	add = func(c *cobra.Command, path []string) {
		for _, sub := range c.Commands() {
			add(sub, append(slices.Clone(path), sub.Name()))
		}
		if len(path) > 0 && path[0] != "serve" { // serve prints it on purpose
			commands = append(commands, path)
		}
	}
	add(rootCommand(), nil)
	said := 0
	for _, c := range commands {
		for _, with := range [][]string{
			{"--endpoint", a.endpoint, "--key", a.key},
			{"--endpoint", a.endpoint, "--key", wrong},
			{"--connection-string", connection},
			{"--connection-string", strings.Replace(connection, "AccountEndpoint", "Endpoint", 1)},
			{"--connection-string", connection, "--key", a.key},
			{"--endpoint", connection},
			{"--endpoint", a.endpoint, "--key", a.key + "?"},
			{"--key", a.key, "--nonsense"},
			{"--key", a.key, "--help"},
		} {
			code, out, errOut := command(t, append(append(append([]string{}, c...), container...), with...)...)
			for _, key := range []string{a.key, wrong} {
				if strings.Contains(out+errOut, strings.TrimRight(key, "=")) {
					t.Errorf("%v %v prints the key, with status %d: %s%s", c, with[0], code, out, errOut)
				}
			}
			if out+errOut != "" {
				said++
			}
		}
	}
	if said < len(commands)*8 { // a run without output proves nothing
		t.Errorf("of %d commands %d said anything", len(commands)*9, said)
	}
}

func TestMisplacedKeyIsNotPrinted(t *testing.T) {
	key := base64.StdEncoding.EncodeToString([]byte("a key as long as those of accounts are, which are sixty-four b.."))
	connection := "AccountEndpoint=http://127.0.0.1:9/;AccountKey=c2hvcnQ=;"
	for _, args := range [][]string{
		{"tail", "--key-file", key},
		{"tail", key},
		{"tail", connection},
		{"leases", "ls", key},
		{"leases", "release", key},
		{"leases", "import", key},
		{"leases", "convert", "--to", key},
		{"lag", "--certificate", key},
		{"lag", "--dialect", key},
		{"replicate", "--from", key, "--to", "shop/orders"},
		{"replicate", "--from", "shop/orders", "--to", key},
		{"replicate", "--from", "shop/orders", "--to", "shop/copy", "--key", key},
		{"replicate", "--from", "shop/orders", "--to", "shop/copy", "--hosts", key},
		{"partitions", "split", key},
		{key},
	} {
		if len(args) > 1 && args[0] != "replicate" {
			args = append(args, "--database", "shop", "--container", "orders", "--endpoint", "http://127.0.0.1:9/")
		}
		code, out, errOut := command(t, args...)
		if code == exitOK || errOut == "" {
			t.Errorf("%v: status %d, and it says %q", args, code, errOut)
		}
		if strings.Contains(out+errOut, strings.TrimRight(key, "=")) || strings.Contains(out+errOut, "c2hvcnQ") {
			t.Errorf("%v prints the key: %s%s", args, out, errOut)
		}
	}
}

func TestAnAccountThatCantBeUsedIsExplained(t *testing.T) {
	a := newAccount(t)
	if _, err := a.db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: "expiring", KeyPaths: []string{"/id"}, DefaultTTL: 60}); err != nil {
		t.Fatal(err)
	}
	container := []string{"--database", "shop", "--container", "orders"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{append([]string{"leases", "ls", "--leases", "expiring", "--endpoint", a.endpoint, "--key", a.key}, container...), "there are no leases of shop/orders in shop/expiring"},
		{[]string{"tail", "--endpoint", a.endpoint, "--key", a.key, "--database", "shop", "--container", "order"}, "container shop/order does not exist; the existing ones are shop/"},
		{[]string{"leases", "ls", "--endpoint", a.endpoint, "--key", a.key, "--database", "shop", "--container", "order"}, "container shop/order does not exist; the existing ones are shop/"},
		{append([]string{"leases", "ls", "--leases", "lease", "--endpoint", a.endpoint, "--key", a.key}, container...), "lease container shop/lease does not exist; name it with --leases"},
		{append([]string{"leases", "ls", "--endpoint", a.endpoint, "--key", a.key}, container...), "there are no leases of shop/orders in shop/leases"},
		{append([]string{"leases", "ls", "--leases", "orders", "--endpoint", a.endpoint, "--key", a.key}, container...), "is partitioned by /customer"},
	} {
		code, out, errOut := command(t, c.args...)
		if code != exitFailed || out != "" || !strings.Contains(errOut, c.want) || strings.Count(errOut, "\n") > 2 {
			t.Errorf("%v: status %d: %s%s; want %q", c.args, code, out, errOut, c.want)
		}
	}
}

// There were three texts once. That of partitions and fault named no flag, and each had the
// payload that the service signs.
func TestAWrongKeyHasOneText(t *testing.T) {
	a := newAccount(t)
	key := []string{"--endpoint", a.endpoint, "--key", base64.StdEncoding.EncodeToString([]byte("wrong"))}
	container := append(slices.Clone(key), "--database", "shop", "--container", "orders")
	want := "changefeed: account " + strings.TrimPrefix(strings.TrimSuffix(a.endpoint, "/"), "http://") + " rejects the key: it belongs to another account, or was replaced; " +
		"check --key-file, --key or COSMOS_KEY (on this machine the default is the local emulators' key)\n"
	for _, args := range [][]string{
		append([]string{"tail"}, container...), append([]string{"lag"}, container...), append([]string{"leases", "ls"}, container...),
		append([]string{"partitions", "ls"}, container...), append([]string{"fault", "ls"}, key...),
	} {
		if code, out, errOut := command(t, args...); code != exitFailed || out != "" || errOut != want {
			t.Errorf("%v: status %d: %s%s; want %q", args, code, out, errOut, want)
		}
	}
}

// Without a flag, commands trust the certificate that `changefeed serve` has stored for
// this user. They trust the certificate in a data directory only if --certificate or
// COSMOS_CERTIFICATE names it.
func TestCommandsTrustTheServersOwnCertificate(t *testing.T) {
	dir := shop(t, 0)
	endpoint, end := served(t, "--data", dir)
	defer func() {
		if code, errOut := end(os.Interrupt); code != exitOK {
			t.Errorf("serve: status %d: %s", code, errOut)
		}
	}()
	t.Setenv("XDG_CACHE_HOME", t.TempDir()) // the new home has no certificate of this user
	args := []string{"tail", "--endpoint", endpoint, "--database", "shop", "--container", "orders"}
	code, out, errOut := command(t, append(args, "--certificate", filepath.Join(dir, "localhost.crt"))...)
	if code != exitOK || strings.Count(out, "\n") != 2 {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
	if code, _, errOut := command(t, args...); code != exitFailed || !strings.Contains(errOut, "use --certificate FILE") {
		t.Errorf("status %d: %s", code, errOut)
	}
	t.Setenv("COSMOS_CERTIFICATE", filepath.Join(dir, "localhost.crt"))
	if code, out, errOut := command(t, args...); code != exitOK || strings.Count(out, "\n") != 2 {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
}

func TestPartitionsOfAStoreAreSplitWithoutAServer(t *testing.T) {
	args := []string{"--data", shop(t, 0), "--database", "shop", "--container", "orders"}
	code, out, errOut := command(t, append([]string{"partitions", "split", "1"}, args...)...)
	if code != exitOK || !strings.Contains(out, "1") {
		t.Fatalf("status %d: %s%s", code, out, errOut)
	}
	code, out, errOut = command(t, append([]string{"partitions", "ls", "--json"}, args...)...)
	var list struct{ Partitions []map[string]any }
	err := json.Unmarshal([]byte(out), &list)
	live := list.Partitions
	if err != nil || code != exitOK || len(live) != 4 || len(live[0]) != 8 {
		t.Fatalf("status %d: %v: %s%s", code, err, out, errOut)
	}
	// The JSON of new partitions must omit their sizes, which are unknown, and not
	// contain zeros.
	code, out, errOut = command(t, append([]string{"partitions", "split", live[0]["id"].(string), "--json"}, args...)...)
	list.Partitions = nil
	err = json.Unmarshal([]byte(out), &list)
	made := list.Partitions
	if err != nil || code != exitOK || len(made) != 2 || len(made[0]) != 4 || made[1]["max"] != live[0]["max"] || made[0]["parents"] == nil {
		t.Errorf("status %d: %v: %s%s", code, err, out, errOut)
	}
}

// The first call to an account reads its properties. An interrupt must end a command that
// waits for them.
func TestAnInterruptEndsTheWaitForASilentAccount(t *testing.T) {
	a := newAccount(t)
	for _, c := range [][]string{
		{"tail", "--follow", "--endpoint", "SILENT"},
		{"lag", "--endpoint", "SILENT"},
		{"leases", "ls", "--endpoint", a.endpoint, "--key", a.key, "--lease-endpoint", "SILENT"},
		{"replicate", "--from", "SILENT/shop/orders", "--to", a.endpoint + "/shop/copy", "--to-key", a.key},
		{"replicate", "--from", a.endpoint + "/shop/orders", "--from-key", a.key, "--to", "SILENT/shop/copy"},
	} {
		ctx, interrupt := context.WithCancel(t.Context())
		ended := make(chan struct{})
		silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			interrupt()
			select {
			case <-r.Context().Done():
			case <-ended:
			}
		}))
		args := slices.Clone(c)
		if c[0] != "replicate" {
			args = append(args, "--database", "shop", "--container", "orders")
		}
		for i := range args {
			args[i] = strings.Replace(args[i], "SILENT", silent.URL, 1)
		}
		var out, errOut strings.Builder
		code := run(ctx, args, strings.NewReader(""), &out, &errOut)
		close(ended)
		silent.Close()
		want := "changefeed: interrupted\n"
		if c[0] == "replicate" {
			want = "changefeed: interrupted before the copy had caught up\n"
		}
		if code != exitInterrupted || errOut.String() != want || out.String() != "" {
			t.Errorf("%v: status %d: %s%s", c, code, &out, &errOut)
		}
	}
}

// `serve` can take its keys from files or from the environment. A key on the command line
// is visible to every user who lists processes.
func TestServeTakesItsKeysFromFilesAndTheEnvironment(t *testing.T) {
	dir := shop(t, 0)
	keys := map[string]string{}
	for _, name := range []string{"file", "environment", "reader"} {
		keys[name] = base64.StdEncoding.EncodeToString([]byte("serve's key of the " + name))
		write(t, filepath.Join(dir, name+".key"), keys[name]+"\n")
	}
	tail := func(endpoint, key string) int {
		t.Helper()
		code, _, _ := command(t, "tail", "--endpoint", endpoint, "--key", key, "--database", "shop", "--container", "orders")
		return code
	}
	t.Setenv("CHANGEFEED_SERVE_KEY", keys["environment"])
	for _, c := range []struct {
		args []string
		want map[string]int
	}{
		{nil, map[string]int{"environment": exitOK, "file": exitFailed}},
		{
			[]string{"--key-file", filepath.Join(dir, "file.key"), "--read-only-key-file", filepath.Join(dir, "reader.key")},
			map[string]int{"file": exitOK, "reader": exitOK, "environment": exitFailed},
		},
	} {
		endpoint, end := served(t, append([]string{"--tls", "off", "--data", dir}, c.args...)...)
		for name, want := range c.want {
			if got := tail(endpoint, keys[name]); got != want {
				t.Errorf("%v: with the key of the %s: status %d, want %d", c.args, name, got, want)
			}
		}
		if code, errOut := end(os.Interrupt); code != exitOK {
			t.Errorf("serve: status %d: %s", code, errOut)
		}
	}
	if code, _, errOut := command(t, "serve", "--key-file", filepath.Join(dir, "no such file")); code != exitUsage || !strings.Contains(errOut, "--key-file") {
		t.Errorf("no such file: status %d: %s", code, errOut)
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
	"github.com/changefeed-go/changefeed/storetype"
)

// withLetters adds a letters container to the account, with two letters of ada and one of ben by
// the processor mailer, and one by the processor printer. It returns them in that order.
func withLetters(t *testing.T, a *account) (all []letters.Letter) {
	t.Helper()
	ctx := t.Context()
	c, err := a.db.CreateContainer(ctx, "shop", storetype.ContainerProperties{ID: "letters", KeyPaths: []string{letters.KeyPath}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now()
	for i, l := range []struct {
		processor, hash, customer string
		state                     letters.State
		problem                   string
		age                       time.Duration
	}{
		{"mailer", "01", "ada", letters.Dead, "no such Address", 3 * time.Hour},
		{"mailer", "01", "ada", letters.Parked, "", 2 * time.Hour},
		{"mailer", "02", "ben", letters.Dead, "mailbox is full\n\x1b[31m", time.Hour},
		{"printer", "03", "cat", letters.Redriving, "out of paper", time.Minute},
	} {
		s, err := a.db.Letters(c).Open(ctx, letters.Key{Processor: l.processor, Source: feed.ContainerID{Account: "a", RID: "r"}, Database: "shop", Container: "orders"})
		if err != nil {
			t.Fatal(err)
		}
		put := letters.Letter{
			PartitionKey: feed.PartitionKey{l.customer}, Hash: l.hash, ItemID: fmt.Sprint("item", i), LSN: int64(i + 1), Time: now, Operation: feed.Upsert,
			Current: json.RawMessage(fmt.Sprintf(`{"id":"item%d","customer":%q}`, i, l.customer)), State: l.state, Error: l.problem, Stack: "goroutine 1",
			Attempts: 3, Host: "host-1", Lease: "0", First: now.Add(-l.age), Last: now.Add(-l.age),
		}
		if err := s.Put(ctx, put); err != nil {
			t.Fatal(err)
		}
	}
	s, err := a.db.Letters(c).Open(ctx, letters.Key{})
	if err != nil {
		t.Fatal(err)
	}
	for l, err := range s.Read(ctx, letters.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// items returns the members item of lines of JSON.
func items(t *testing.T, lines string) (all []string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		var l letters.Letter
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, l.ItemID)
	}
	return all
}

func (a *account) letters(want int, args ...string) (out, errOut string) {
	a.t.Helper()
	file := filepath.Join(a.t.TempDir(), "key")
	write(a.t, file, a.key+"\n")
	code, out, errOut := command(a.t, append(append([]string{"letters"}, args...), "--endpoint", a.endpoint, "--key-file", file, "--database", "shop")...)
	if code != want {
		a.t.Fatalf("letters %v: status %d; want %d: %s%s", args, code, want, out, errOut)
	}
	return out, errOut
}

func TestLettersAreListedByFilters(t *testing.T) {
	a := newAccount(t)
	withLetters(t, a)
	for _, c := range []struct {
		flags string
		want  string
	}{
		{"", "item0 item1 item2 item3"},
		{"--processor mailer", "item0 item1 item2"},
		{"--container orders", "item0 item1 item2 item3"},
		{"--container invoices", ""},
		{"--key ada", "item0 item1"},
		{`--key ["ben"]`, "item2"},
		{"--error ADDRESS", "item0"},
		{"--state parked", "item1"},
		{"--older 90m", "item0 item1"},
		{"--newer 90m", "item2 item3"},
		{"--older 30m --newer 150m --processor mailer --state dead", "item2"},
		{"--processor nobody", ""},
	} {
		out, _ := a.letters(exitOK, append([]string{"ls", "--json"}, strings.Fields(c.flags)...)...)
		if got := strings.Join(items(t, out), " "); got != c.want {
			t.Errorf("ls %s: %s; want %s", c.flags, got, c.want)
		}
		if strings.Contains(out, `"current"`) {
			t.Errorf("ls %s prints items", c.flags)
		}
	}
	out, _ := a.letters(exitOK, "ls")
	if !strings.Contains(out, "parked") || !strings.Contains(out, `["ada"]`) || strings.Contains(out, "\x1b") || strings.Count(out, "\n") != 5 {
		t.Errorf("the table is\n%s", out)
	}
	if out, _ := a.letters(exitOK, "ls", "--key", "nobody"); out != "no letters\n" {
		t.Errorf("without letters: %s", out)
	}
	for _, bad := range [][]string{{"--state", "lost"}, {"--key", "[1"}, {"--older", "-1s"}, {"--newer", "-1s"}} {
		a.letters(exitUsage, append([]string{"ls"}, bad...)...)
	}
}

func TestLettersShowPrintsItemsAndError(t *testing.T) {
	a := newAccount(t)
	all := withLetters(t, a)
	out, _ := a.letters(exitOK, "show", all[2].ID, all[0].ID)
	for _, want := range []string{all[2].ID, all[0].ID, `"customer": "ben"`, "mailbox is full", "goroutine 1", "shop/orders (r)", "upsert at LSN 3", "host-1, lease 0"} {
		if !strings.Contains(out, want) {
			t.Errorf("show does not print %q:\n%s", want, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Error("show prints a control character")
	}
	out, _ = a.letters(exitOK, "show", "--json", all[2].ID)
	var l letters.Letter
	if err := json.Unmarshal([]byte(out), &l); err != nil || string(l.Current) != `{"id":"item2","customer":"ben"}` || l.Stack != "goroutine 1" {
		t.Errorf("show --json prints %s (%v)", out, err)
	}
	if _, errOut := a.letters(exitFailed, "show", "absent"); !strings.Contains(errOut, "there is no letter absent") {
		t.Errorf("show of an absent letter: %s", errOut)
	}
}

func TestLettersDropDeletesOnlyWhatItWasAskedTo(t *testing.T) {
	a := newAccount(t)
	all := withLetters(t, a)
	left := func() string {
		t.Helper()
		out, _ := a.letters(exitOK, "ls", "--json")
		return strings.Join(items(t, out), " ")
	}
	out, _ := a.letters(exitOK, "drop", all[0].ID, "--dry-run", "--leases", "")
	if !strings.Contains(out, "would drop letter "+all[0].ID) || !strings.Contains(out, "1 letter behind it stays, in order") || left() != "item0 item1 item2 item3" {
		t.Errorf("a dry run prints %s, and leaves %s", out, left())
	}
	for _, args := range [][]string{{all[0].ID}, {}, {"--all", all[0].ID, "--yes"}, {all[0].ID, "--key", "ada", "--yes"}} {
		a.letters(exitUsage, append([]string{"drop", "--leases", ""}, args...)...)
	}
	if _, errOut := a.letters(exitFailed, "drop", all[0].ID, "absent", "--yes"); !strings.Contains(errOut, "there is no letter absent") {
		t.Errorf("drop of an absent letter: %s", errOut)
	}
	if left() != "item0 item1 item2 item3" {
		t.Fatalf("after refused drops there are %s", left())
	}
	out, _ = a.letters(exitOK, "drop", all[0].ID, "--yes", "--leases", "")
	if !strings.Contains(out, "the plan:\n") || !strings.Contains(out, "dropped letter "+all[0].ID) || left() != "item1 item2 item3" {
		t.Errorf("drop prints %s, and leaves %s", out, left())
	}
	a.letters(exitOK, "drop", "--all", "--processor", "mailer", "--yes", "--leases", "")
	if left() != "item3" {
		t.Errorf("after a drop of mailer's letters there are %s", left())
	}
	if out, _ := a.letters(exitOK, "drop", "--all", "--processor", "mailer", "--yes", "--leases", ""); out != "there is nothing to do\n" {
		t.Errorf("a second drop prints %s", out)
	}
}

func TestLettersExportWritesWholeLetters(t *testing.T) {
	a := newAccount(t)
	withLetters(t, a)
	file := filepath.Join(t.TempDir(), "letters.jsonl")
	out, _ := a.letters(exitOK, "export", "--output", file, "--processor", "mailer")
	text, err := os.ReadFile(file)
	if err != nil || out != "wrote 3 letters to "+file+"\n" {
		t.Fatalf("%v: %s", err, out)
	}
	if got := items(t, string(text)); strings.Join(got, " ") != "item0 item1 item2" || strings.Count(string(text), `"current"`) != 3 {
		t.Errorf("the file has %v:\n%s", got, text)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others may read the file: %v (%v)", info.Mode(), err)
	}
	if out, _ := a.letters(exitOK, "export", "--processor", "mailer"); out != string(text) {
		t.Errorf("the output differs from the file: %s", out)
	}
	a.letters(exitFailed, "export", "--output", file)
}

func TestLettersOfAMissingOrWrongContainerAreRefusedByName(t *testing.T) {
	a := newAccount(t)
	if _, errOut := a.letters(exitFailed, "ls"); !strings.Contains(errOut, "the letters container shop/letters does not exist; name it with --letters and --database\n") {
		t.Errorf("a missing container: %s", errOut)
	}
	if _, errOut := a.letters(exitFailed, "ls", "--letters", "orders"); !strings.Contains(errOut, "partitioned by /pk") {
		t.Errorf("a container of something else: %s", errOut)
	}
}

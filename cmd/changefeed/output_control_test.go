package main

import (
	"bufio"
	"encoding/json"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestControlCharactersAreNotPrinted(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":               "plain\ttext\n",
		"größe, 量, 🙂":                 "größe, 量, 🙂",
		"a\x1b[2K\rb":                 `a\u001b[2K\u000db`,
		"bell \a, backspace \b, \x7f": `bell \u0007, backspace \u0008, \u007f`,
		"\u009b31m":                   `\u009b31m`,
		"\u202etxt.exe\u2066":         `\u202etxt.exe\u2066`,
		"line\u2028, paragraph\u2029": `line\u2028, paragraph\u2029`,
		"soft\u00ad, tag\U000e0041":   `soft\u00ad, tag\udb40\udc41`,
		"ends in a part of \xc2":      "ends in a part of \xc2",
	} {
		var out strings.Builder
		if n, err := (harmless{&out}).Write([]byte(in)); n != len(in) || err != nil || out.String() != want {
			t.Errorf("%q: %q, %d, %v; want %q", in, out.String(), n, err, want)
		}
	}
	// A document may contain these in a string, and its JSON must keep its meaning.
	const strange = "a\x7fb\u202ec\U000e0041"
	document, name := `{"name":"`+strange+`"}`, struct{ Name string }{}
	var out strings.Builder
	if _, err := (harmless{&out}).Write([]byte(document)); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out.String()), &name); err != nil || name.Name != strange {
		t.Errorf("%s: %q, %v", out.String(), name.Name, err)
	}
}

// The buffer of tail once wrote a character's first bytes and its last ones apart, if they
// were around its end.
func TestTailEscapesACharacterAtTheEndOfItsBuffer(t *testing.T) {
	text := func(n int, end string) json.RawMessage {
		return json.RawMessage(`"` + strings.Repeat("a", n) + end + `"`)
	}
	for shift := range 4 {
		var out strings.Builder
		l := &lineWriter{w: bufio.NewWriterSize(harmless{&out}, 100)}
		p := feed.Page{Changes: []feed.Change{{Current: text(40, "")}, {Current: text(53+shift, "\u202e")}, {Current: text(93+shift, "\u202e")}}}
		if err := l.page(p); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); strings.Count(got, `\u202e"`) != 2 || strings.Contains(got, "\u202e") {
			t.Errorf("shift %d: %q", shift, got)
		}
	}
}

// Whoever may write a lease document chooses the name of its owner. With ESC and line breaks
// in it, that name could otherwise erase the rows above, and add rows of its own.
func TestNamesOfOwnersDoNotControlTheTerminal(t *testing.T) {
	s := leasesOf(t)
	s.edit(func(db *store.DB) {
		l := whole(s.live[0], 10)
		l.Owner = "evil\x1b[2J\nlease 9\u009b\u202e"
		s.put(db, s.codec.Encode(l))
	})
	for _, command := range [][]string{{"ls"}, {"ls", "--json"}, {"check"}} {
		_, out, errOut := s.run(command...)
		if text := out + errOut; strings.ContainsAny(text, "\x1b\u009b\u202e") || strings.Contains(text, "\nlease 9") {
			t.Errorf("%q: %q", command, text)
		}
	}
	_, out, _ := s.run("ls")
	if !strings.Contains(out, `evil...\u202e`) {
		t.Errorf("the owner is not shown: %q", out)
	}
	// The columns must be as wide as what is printed.
	_, table, _ := strings.Cut(out, "LEASE")
	head, rows, _ := strings.Cut(table, "\n")
	at := strings.Index(head, "POSITION") + len("LEASE")
	for row := range strings.Lines(rows) {
		if !strings.HasPrefix(row[at:], "LSN ") {
			t.Errorf("%q is not aligned with %q", row, head)
		}
	}
}

// Names also go through running text: errors, plans, notes, the first line of a copy. There a
// line break could add a line that looks like one of the command's own.
func TestNamesInRunningTextDoNotMakeLines(t *testing.T) { synctest.Test(t, namesInRunningText) }

func namesInRunningText(t *testing.T) {
	const evil = "9\x1b[2J\nforged\tby\u009b\u202e"
	s := leasesOf(t)
	s.edit(func(db *store.DB) {
		l := whole(s.live[0], 10)
		l.Owner = "host" + evil
		s.put(db, s.codec.Encode(l))
		unreadable, err := json.Marshal(map[string]string{"id": s.codec.LeasePrefix() + evil})
		if err != nil {
			t.Fatal(err)
		}
		s.put(db, unreadable)
		for _, name := range []string{evil, "apart"} {
			if _, err := db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: name, KeyPaths: []string{"/" + name}}); err != nil {
				t.Fatal(err)
			}
		}
		foreign := whole(s.live[1], 10)
		foreign.Token = evil
		foreign.ID = s.codec.LeaseID(evil)
		s.drop(db, s.codec.LeaseID(s.live[1].ID))
		s.put(db, s.codec.Encode(foreign))
	})
	account := []string{"--data", s.dir, "--database", "shop", "--container"}
	shown := 0
	for _, args := range [][]string{
		append([]string{"partitions", "ls"}, append(account, "nope")...),
		append([]string{"tail"}, append(account, "nope")...),
		append([]string{"lag"}, append(account, "orders")...),
		append([]string{"lag", "--processor", "x"}, append(account, "orders")...),
		append([]string{"leases", "ls", "--leases", "apart"}, append(account, "orders")...),
		append([]string{"leases", "ls", "--leases", evil}, append(account, evil)...),
		append([]string{"leases", "delete", "--all", "--dry-run", "--force"}, append(account, "orders")...),
		append([]string{"leases", "delete", "--all", "--yes"}, append(account, "orders")...),
		append([]string{"leases", "reset", "nope", "--to", "now"}, append(account, "orders")...),
		append([]string{"leases", "release", "--all", "--dry-run"}, append(account, "orders")...),
		append([]string{"leases", "check", "--repair", "--dry-run"}, append(account, "orders")...),
		append([]string{"leases", "convert", "--to", "java-latest-version", "--to-processor", "q"}, append(account, "orders")...),
		{"replicate", "--data", s.dir, "--from", "shop/orders", "--to", "shop/" + url.PathEscape(evil), "--leases", "leases", "--until-caught-up"},
	} {
		_, out, errOut := command(t, args...)
		text := out + errOut
		if strings.ContainsAny(text, "\x1b\t\u009b\u202e") || strings.Contains(text, "\nforged") {
			t.Errorf("%q: %q", args, text)
		}
		if strings.Contains(text, `9\u001b[2J\nforged\tby\u009b\u202e`) {
			shown++
		}
	}
	if shown < 11 { // in two of them no such name has a place
		t.Errorf("only %d texts show the name", shown)
	}
}

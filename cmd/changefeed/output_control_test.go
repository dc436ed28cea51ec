package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/store"
)

func TestControlCharactersAreNotPrinted(t *testing.T) {
	for in, want := range map[string]string{
		"plain\ttext\n":               "plain\ttext\n",
		"größe, 量, 🙂":                 "größe, 量, 🙂",
		"a\x1b[2K\rb":                 `a\u001b[2K\u000db`,
		"bell \a, backspace \b, \x7f": `bell \u0007, backspace \u0008, \u007f`,
		"\u009b31m":                   `\u009b31m`,
		"ends in a part of \xc2":      "ends in a part of \xc2",
	} {
		var out strings.Builder
		if n, err := (harmless{&out}).Write([]byte(in)); n != len(in) || err != nil || out.String() != want {
			t.Errorf("%q: %q, %d, %v; want %q", in, out.String(), n, err, want)
		}
	}
	// A document may contain DEL in a string, and its JSON must keep its meaning.
	document, name := "{\"name\":\"a\x7fb\"}", struct{ Name string }{}
	var out strings.Builder
	if _, err := (harmless{&out}).Write([]byte(document)); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(out.String()), &name); err != nil || name.Name != "a\x7fb" {
		t.Errorf("%s: %q, %v", out.String(), name.Name, err)
	}
}

// Whoever may write a lease document chooses the name of its owner. With ESC and line breaks
// in it, that name could otherwise erase the rows above, and add rows of its own.
func TestNamesOfOwnersDoNotControlTheTerminal(t *testing.T) {
	s := leasesOf(t)
	s.edit(func(db *store.DB) {
		l := whole(s.live[0], 10)
		l.Owner = "evil\x1b[2J\nlease 9\u009b"
		s.put(db, s.codec.Encode(l))
	})
	for _, command := range [][]string{{"ls"}, {"ls", "--json"}, {"check"}} {
		_, out, errOut := s.run(command...)
		if text := out + errOut; strings.ContainsAny(text, "\x1b\u009b") || strings.Contains(text, "\nlease 9") {
			t.Errorf("%q: %q", command, text)
		}
	}
	if _, out, _ := s.run("ls"); !strings.Contains(out, `evil\u001b[2J\nlease 9\u009b`) {
		t.Errorf("the owner is not shown: %q", out)
	}
}

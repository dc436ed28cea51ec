package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/testkit"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

var update = flag.Bool("recorded.update", false, "write the differences that the test finds to differences.txt")

const differencesFile = "differences.txt"

// The server must answer the recorded requests as the service did. differences.txt lists the
// cases that differ, with the reason. If a case differs in more than it says, the server has
// got worse; if in less, the file is out of date.
func TestServerAnswersAsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 10, 10, 12, 0, 0, 0, time.UTC))) // so that _ts has ten digits
		account := testkit.Serve(t, testkit.NewStore(t, store.Options{}), server.Options{})
		limited := testkit.NewStore(t, store.Options{EnforceThroughput: true})
		second := testkit.Serve(t, limited, server.Options{})
		key, err := wire.ParseKey(account.Key)
		if err != nil {
			t.Fatal(err)
		}
		cases, err := loadCases()
		if err != nil {
			t.Fatal(err)
		}
		r := &replay{endpoint: strings.TrimSuffix(account.Endpoint, "/"), key: key, client: account.Client, patient: true}
		r.bursts = &replay{endpoint: strings.TrimSuffix(second.Endpoint, "/"), key: key, client: second.Client, patient: true, limit: limit(limited)}
		known, lines := readDifferences(t), map[int]string{}
		total := newTotals()
		err = r.run(t.Context(), cases, func(x result) {
			total.add(x)
			found := strings.Join(x.classes(), ",")
			if found != "" {
				lines[x.N] = fmt.Sprintf("%d %s: %s", x.N, found, known[x.N].reason)
			}
			if found != "" && known[x.N].reason == "" {
				t.Errorf("case %d (%s) differs in %q, and %s has no reason; write it after the colon", x.N, x.Name, found, differencesFile)
			}
			if want := known[x.N].classes; found != want && !*update {
				t.Errorf("case %d (%s) differs in %q, and in %s in %q; run this test with -recorded.update if that is right", x.N, x.Name, found, differencesFile, want)
				for _, d := range x.found {
					t.Logf("  %v", d)
				}
			}
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("of %d cases, %d agree whole, and %d without %s", total.cases, total.agreeWhole, total.agree, strings.Join(lesser, ", "))
		if *update {
			writeDifferences(t, lines)
		}
	})
}

// knownDifference is a line of differences.txt: the classes in which a case differs, and why.
type knownDifference struct{ classes, reason string }

func readDifferences(t *testing.T) map[int]knownDifference {
	t.Helper()
	f, err := os.Open(differencesFile)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read
	all := map[int]knownDifference{}
	for s := bufio.NewScanner(f); s.Scan(); {
		if strings.HasPrefix(s.Text(), "#") || s.Text() == "" {
			continue
		}
		head, reason, ok := strings.Cut(s.Text(), ": ")
		number, found, ok2 := strings.Cut(head, " ")
		n, err := strconv.Atoi(number)
		if !ok || !ok2 || err != nil {
			t.Fatalf("%s: %q is not of the form NUMBER CLASSES: REASON", differencesFile, s.Text())
		}
		all[n] = knownDifference{found, reason}
	}
	return all
}

const differencesHead = `# The cases in which the server's answer differs from the recorded one, with the classes of facts
# that differ, and the reason. TestServerAnswersAsRecorded compares this list with the answers.

`

func writeDifferences(t *testing.T, lines map[int]string) {
	t.Helper()
	var numbers []int
	for n := range lines {
		numbers = append(numbers, n)
	}
	slices.Sort(numbers)
	var b strings.Builder
	b.WriteString(differencesHead)
	for _, n := range numbers {
		b.WriteString(lines[n] + "\n")
	}
	if err := os.WriteFile(differencesFile, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
}

// An account is asked only with the consent of its owner. The answer differs from the
// recording where it has changed since, and the database judge is deleted afterwards.
func TestAnAccountIsAskedOnceAndLeftAsItWas(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 10, 10, 12, 0, 0, 0, time.UTC)))
		db := testkit.NewStore(t, store.Options{})
		account := testkit.Serve(t, db, server.Options{})
		ask := func(input string) (string, error) {
			var out strings.Builder
			err := run(t.Context(), strings.NewReader(input), &out, options{endpoint: account.Endpoint, key: account.Key, client: account.Client})
			return out.String(), err
		}
		databases := func(want int) {
			t.Helper()
			if all, err := db.Databases(t.Context()); err != nil || len(all) != want {
				t.Errorf("the account has %d databases (%v), want %d", len(all), err, want)
			}
		}
		for _, input := range []string{"", "n\n", "maybe\n"} {
			if out, err := ask(input); !errors.Is(err, errDeclined) || !strings.Contains(out, "USD") || strings.Count(out, "?") != 1 {
				t.Errorf("%q: %v\n%s", input, err, out)
			}
			databases(0)
		}
		// The list of offers has those of the account's other databases, too.
		if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "own", Throughput: 500}); err != nil {
			t.Fatal(err)
		}
		out, err := ask("y\n")
		if err != nil {
			t.Fatal(err)
		}
		databases(1)
		if strings.Contains(out, "164 differs") {
			t.Errorf("the offers of another database are a difference:\n%s", out)
		}
		if err := db.DeleteDatabase(t.Context(), "own"); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"157 differs", "status : 400", "Of 147 cases"} {
			if !strings.Contains(out, want) {
				t.Errorf("the output lacks %q", want)
			}
		}
		if strings.Contains(out, "agrees") {
			t.Error("the output has cases that have not changed")
		}
		if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: suitesDatabase}); err != nil {
			t.Fatal(err)
		}
		suites := options{endpoint: account.Endpoint, key: account.Key, client: account.Client, suites: true}
		var asked strings.Builder
		if err := run(t.Context(), strings.NewReader("y\n"), &asked, suites); err == nil || !strings.Contains(err.Error(), "named "+suitesDatabase+", which would be deleted") {
			t.Errorf("with a database %s: %v", suitesDatabase, err)
		}
		if strings.Count(asked.String(), "?") != 1 || strings.Count(asked.String(), "USD") != 2 {
			t.Errorf("it asks:\n%s", asked.String())
		}
		databases(1)
		if err := db.DeleteDatabase(t.Context(), suitesDatabase); err != nil {
			t.Fatal(err)
		}
		if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "judge"}); err != nil {
			t.Fatal(err)
		}
		if _, err := ask("y\n"); err == nil || !strings.Contains(err.Error(), "would be deleted") {
			t.Errorf("with a database judge: %v", err)
		}
		databases(1)
	})
}

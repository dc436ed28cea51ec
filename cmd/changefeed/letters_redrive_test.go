package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
	rest "github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/storetype"
)

// The letters of a key are handed out in order, from the first one, and then its newer changes.
func TestLettersRedriveHandsAKeysLettersOutInOrder(t *testing.T) {
	m := newMailer(t)
	defer m.start()()
	m.breaks("a1", "b1")
	for _, id := range []string{"a1", "a2", "a3"} {
		m.write("ada", id)
	}
	m.write("ben", "b1")
	m.write("ada", "a4")
	m.write("cat", "c1")
	const before = "a1 dead, a2 parked, a3 parked, a4 parked, "
	if all := m.letterList(); !strings.Contains(all, before) || !strings.Contains(all, "b1 dead, ") {
		t.Fatalf("the letters are %s", all)
	}
	m.breaks()
	out, _ := m.letters(exitOK, "redrive", m.letterOf("a2"), "--dry-run")
	for _, want := range []string{
		"would redrive letter " + m.letterOf("a1") + ": dead item a1 of key [\"ada\"] at LSN ", "; it precedes a chosen letter of its key\n",
		"would redrive letter " + m.letterOf("a2") + ": parked item a2 ", "; 2 letters behind it follow\n", "would ask host-1, the owner of lease ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("the dry run does not print %q:\n%s", want, out)
		}
	}
	if all := m.letterList(); !strings.Contains(all, before) || strings.Contains(out, "item b1") || strings.Contains(out, "is asked") {
		t.Errorf("after a dry run: %s; it prints %s", all, out)
	}
	first := m.letterOf("a1")
	out, _ = m.letters(exitOK, "redrive", m.letterOf("a2"), "--yes")
	for _, want := range []string{"the plan:\n", "letter " + first + " is redriving now\n", " follows the earlier letters of its key\n", "host-1, the owner of lease ", " is asked to hand them out, and does so after its next write of the lease\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("redrive does not print %q:\n%s", want, out)
		}
	}
	m.until(func() bool { return m.letterList() == "b1 dead, " })
	m.write("ada", "a5")
	if got := m.done(); !slices.Equal(got, []string{"c1", "a1", "a2", "a3", "a4", "a5"}) {
		t.Errorf("handled %v", got)
	}
	m.letters(exitOK, "redrive", "--all", "--processor", "p", "--yes")
	m.until(func() bool { return m.letterList() == "" })
	if out, _ := m.letters(exitOK, "redrive", "--all", "--yes"); out != "there is nothing to do\n" {
		t.Errorf("without letters: %s", out)
	}
}

// A letter with which the handler fails again is dead again, with the reason, and what is behind it
// stays.
func TestLettersRedriveOfWhatFailsAgainKeepsTheOrder(t *testing.T) {
	m := newMailer(t)
	defer m.start()()
	m.breaks("a1", "a2")
	m.write("ada", "a1")
	m.write("ada", "a2")
	m.write("ada", "a3")
	m.breaks("a2")
	m.letters(exitOK, "redrive", m.letterOf("a1"), "--yes")
	m.until(func() bool { return m.letterList() == "a2 dead, a3 parked, " })
	if got := m.done(); !slices.Equal(got, []string{"a1"}) {
		t.Errorf("handled %v", got)
	}
}

// With ParkNone only the chosen letters are handed out.
func TestLettersRedriveWithoutParkingHandsOutTheChosenOnes(t *testing.T) {
	m := newMailer(t)
	m.park = changefeed.ParkNone
	defer m.start()()
	m.breaks("a1", "a2", "b1")
	m.write("ada", "a1")
	m.write("ada", "a2")
	m.write("ben", "b1")
	m.breaks()
	m.letters(exitOK, "redrive", m.letterOf("a1"), "--yes")
	m.until(func() bool { return !strings.Contains(m.letterList(), "a1") })
	if all := m.letterList(); !strings.Contains(all, "a2 dead, ") || !strings.Contains(all, "b1 dead, ") {
		t.Errorf("the letters are %s", all)
	}
}

// While the owner has not answered, the lease is not written again: that would keep the lease of a
// dead owner alive.
func TestLettersRedriveAsksOnceUntilTheOwnerAnswers(t *testing.T) {
	m := newMailer(t)
	stop := m.start()
	m.breaks("a1", "a2")
	m.write("ada", "a1")
	stop()
	out, _ := m.letters(exitOK, "redrive", "--all", "--yes")
	if !strings.Contains(out, "the next owner of lease ") || !strings.Contains(out, " is asked to hand them out") || m.letterList() != "a1 redriving, " {
		t.Fatalf("letters: %s; it prints %s", m.letterList(), out)
	}
	leases := m.leaseDocuments()
	if !strings.Contains(leases, `Z 0:`) { // the session token follows the time
		t.Errorf("the request has no session token: %s", leases)
	}
	out, _ = m.letters(exitOK, "redrive", "--all", "--yes")
	if !strings.Contains(out, " was redriving before\n") || !strings.Contains(out, "was asked before, and has not answered yet\n") || leases != m.leaseDocuments() {
		t.Errorf("it prints %s", out)
	}
	m.breaks()
	stop = m.start()
	m.until(func() bool { return m.letterList() == "" })
	stop()
	m.breaks("a2")
	stop = m.start()
	m.write("ada", "a2")
	if out, _ = m.letters(exitOK, "redrive", "--all", "--yes"); !strings.Contains(out, " is asked to hand them out") {
		t.Errorf("after the answer it prints %s", out)
	}
	stop()
}

// leaseDocuments returns the documents in the lease container, with their ETags.
func (m *mailer) leaseDocuments() string {
	m.t.Helper()
	page, err := m.leases.Items(m.t.Context(), storetype.ItemsRequest{}) // it has one partition
	if err != nil || page.Continuation != "" {
		m.t.Fatalf("%v: %+v", err, page)
	}
	var b strings.Builder
	for _, i := range page.Items {
		b.Write(i.Body)
	}
	return b.String()
}

func TestLettersDropOfTheFirstOneReleasesTheRest(t *testing.T) {
	m := newMailer(t)
	defer m.start()()
	m.breaks("a1", "b1")
	for _, id := range []string{"a1", "a2", "a3"} {
		m.write("ada", id)
	}
	m.write("ben", "b1")
	m.write("ben", "b2")
	out, _ := m.letters(exitOK, "drop", m.letterOf("a1"), "--yes")
	if !strings.Contains(out, "2 letters behind it stay, in order\n") || !strings.Contains(out, "  ask host-1, the owner of lease ") || !strings.Contains(out, " is asked to hand them out") {
		t.Fatalf("drop prints %s", out)
	}
	m.until(func() bool { return !strings.Contains(m.letterList(), "a") || m.letterList() == "b1 dead, b2 parked, " })
	m.write("ada", "a4")
	if got := m.done(); !slices.Equal(got, []string{"a2", "a3", "a4"}) {
		t.Errorf("handled %v", got)
	}
	m.letters(exitOK, "drop", "--all", "--key", "ben", "--yes")
	m.until(func() bool { m.write("ben", "b3"); return slices.Contains(m.done(), "b3") })
}

// A handler may stop a lease that has letters. They are handed out once it is resumed.
func TestLettersRedriveOfAStoppedLeaseNamesTheWayOn(t *testing.T) {
	m := newMailer(t)
	defer m.start()()
	m.breaks("a1", "stop")
	m.write("ada", "a1")
	token := m.stored()[0].Lease
	for i := range 10 { // of both leases
		if _, err := m.orders.Upsert(t.Context(), nil, fmt.Appendf(nil, `{"id":"stop","customer":"c%d"}`, i), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	m.until(func() bool {
		_, out, _ := m.run("leases", "ls")
		return strings.Contains(out, "lease "+token+" is stopped since ")
	})
	m.breaks()
	out, _ := m.letters(exitOK, "redrive", "--all", "--yes")
	if !strings.Contains(out, "its handler has stopped the lease: run `changefeed leases resume "+token+"` first") || m.letterList() != "a1 redriving, " {
		t.Errorf("letters: %s; it prints %s", m.letterList(), out)
	}
	if code, out, errOut := m.run("leases", "resume", token); code != exitOK {
		t.Fatalf("status %d: %s%s", code, out, errOut)
	}
	m.until(func() bool { return m.letterList() == "" })
}

// No letter is changed or deleted unless the owners can be asked.
func TestLettersWithoutAnOwnerAreRefusedBeforeAnythingChanges(t *testing.T) {
	m := newMailer(t)
	stop := m.start()
	m.breaks("a1")
	m.write("ada", "a1")
	stop()
	refused := func(want string, args ...string) {
		t.Helper()
		for _, verb := range []string{"redrive", "drop"} {
			_, errOut := m.letters(exitFailed, append([]string{verb, "--all", "--yes"}, args...)...)
			hint := "; if its processor is gone, use --leases \"\", which asks nobody"
			if !strings.Contains(errOut, want) || strings.Contains(errOut, hint) != (verb == "drop") {
				t.Errorf("%s %v: %s; want %q", verb, args, errOut, want)
			}
		}
		if all := m.letterList(); all != "a1 dead, " {
			t.Fatalf("%v: the letters are %s", args, all)
		}
	}
	refused("lease container shop/lease does not exist; name it with --leases and --lease-database", "--leases", "lease")
	refused("database/leases does not exist", "--lease-database", "database")
	refused("is partitioned by /customer", "--leases", "orders")
	if _, err := m.db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: "empty", KeyPaths: []string{"/id"}}); err != nil {
		t.Fatal(err)
	}
	refused(`there are no leases of shop/orders in shop/empty of the processor "p"`, "--leases", "empty")
	for _, args := range [][]string{{"redrive", "--all", "--yes", "--leases", ""}, {"redrive", "--all", "--yes", "--dialect", "x"}, {"redrive", "--yes"}, {"redrive", "--all"}} {
		m.letters(exitUsage, args...)
	}
	token := m.stored()[0].Lease
	if code, out, errOut := m.run("leases", "delete", token, "--yes"); code != exitOK {
		t.Fatalf("status %d: %s%s", code, out, errOut)
	}
	refused(`no lease of the processor "p" holds the key with the hash "`)
	if err := m.db.DeleteContainer(t.Context(), "shop", "orders"); err != nil {
		t.Fatal(err)
	}
	refused("container shop/orders does not exist; the existing ones are shop/")
	if _, err := m.db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}}); err != nil {
		t.Fatal(err)
	}
	refused("it was recreated, or is in another account")
	if m.letters(exitOK, "drop", "--all", "--yes", "--leases", ""); m.letterList() != "" {
		t.Errorf("the letters are %s", m.letterList())
	}
}

// A letter of which a newer one exists is deleted on request, and others are handed out.
func TestLettersRedriveSkipsWhatIsSuperseded(t *testing.T) {
	m := newMailer(t)
	stop := m.start()
	m.breaks("a1")
	m.write("ada", "a1")
	m.write("ada", "a2")
	if _, err := m.orders.Upsert(t.Context(), nil, []byte(`{"id":"a1","customer":"ada","version":2}`), storetype.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	m.until(func() bool { return len(m.stored()) == 3 })
	first, last := m.stored()[0].ID, m.stored()[2].ID
	stop()
	m.breaks()
	out, _ := m.letters(exitOK, "redrive", "--all", "--yes", "--skip-superseded")
	if !strings.Contains(out, "delete letter "+first+": dead item a1 ") || !strings.Contains(out, "; letter "+last+" of the item is newer, with LSN ") ||
		!strings.Contains(out, "letter "+first+" is deleted\n") || m.letterList() != "a2 parked, a1 parked, " {
		t.Fatalf("letters: %s; it prints %s", m.letterList(), out)
	}
	defer m.start()()
	m.until(func() bool { return m.letterList() == "" })
	if got := m.done(); !slices.Equal(got, []string{"a2", "a1"}) {
		t.Errorf("handled %v", got)
	}
}

// interfered returns the account behind a server that calls interfere before the first write of a
// lease.
func (m *mailer) interfered(interfere func(s lease.Store, l lease.Lease)) {
	m.t.Helper()
	handler, err := rest.New(m.db, rest.Options{Keys: []string{m.key}})
	if err != nil {
		m.t.Fatal(err)
	}
	identity, err := m.db.Source(m.orders).Identity(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	s, err := m.db.Leases(m.leases).Open(m.t.Context(), lease.Key{Processor: "p", Identity: identity})
	if err != nil {
		m.t.Fatal(err)
	}
	ctx := m.t.Context()
	var once sync.Once
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/colls/leases/") {
			once.Do(func() {
				listing, err := s.List(ctx)
				if err != nil {
					m.t.Error(err)
				}
				for _, l := range listing.Leases {
					if strings.HasSuffix(r.URL.Path, ".."+l.Token) {
						interfere(s, l)
					}
				}
			})
		}
		handler.ServeHTTP(w, r)
	}))
	m.t.Cleanup(server.Close)
	m.endpoint = strings.Replace(server.URL, "127.0.0.1", "localhost", 1)
}

// The owner may write its lease while the command does, or replace it after a split.
func TestLettersRedriveAsksBesideAnOwnerThatWritesItsLease(t *testing.T) {
	for _, c := range []struct {
		name      string
		interfere func(s lease.Store, l lease.Lease) error
		asks      int
	}{
		{"written", func(s lease.Store, l lease.Lease) error {
			_, err := s.Update(t.Context(), l)
			return err
		}, 1},
		{"asked", func(s lease.Store, l lease.Lease) error {
			_, err := s.Update(t.Context(), protocol.AskToRedrive(l, time.Now(), ""))
			return err
		}, 0},
		{"replaced", func(s lease.Store, l lease.Lease) error {
			for _, r := range l.Range.Cut([]string{"10"}) {
				if _, err := s.Create(t.Context(), l.Child(lease.Lease{Token: r.String(), Range: r})); err != nil {
					return err
				}
			}
			return s.Delete(t.Context(), l)
		}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := newMailer(t)
			stop := m.start()
			m.breaks("a1")
			m.write("ada", "a1")
			stop()
			if r, err := m.orders.KeyRange(feed.PartitionKey{"ada"}); err != nil || r.Min >= "1FFF" {
				t.Fatalf("%v, %v: the test splits the first lease", r, err)
			}
			m.interfered(func(s lease.Store, l lease.Lease) {
				if err := c.interfere(s, l); err != nil {
					t.Error(err)
				}
			})
			out, _ := m.letters(exitOK, "redrive", "--all", "--yes")
			if got := strings.Count(out, " is asked to hand them out"); got != c.asks || m.letterList() != "a1 redriving, " {
				t.Errorf("letters: %s; asked %d times: %s", m.letterList(), got, out)
			}
			if got := strings.Count(m.leaseDocuments(), `"redrive":`); got != 1 {
				t.Errorf("%d leases have a request: %s", got, m.leaseDocuments())
			}
		})
	}
}

func TestLettersMayBeInAnotherAccount(t *testing.T) {
	m, other := newMailer(t), newAccount(t)
	if _, err := other.db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: "letters", KeyPaths: []string{letters.KeyPath}}); err != nil {
		t.Fatal(err)
	}
	m.lettersIn = other
	defer m.start()()
	m.breaks("a1")
	m.write("ada", "a1")
	elsewhere := []string{"--letters-endpoint", other.endpoint, "--letters-key", other.key}
	if code, out, errOut := m.run(append([]string{"lag", "--letters", "letters"}, elsewhere...)...); code != exitOK || !strings.Contains(out, "; 1 letter, 0 parked keys ") {
		t.Errorf("lag: status %d: %s%s", code, out, errOut)
	}
	if out, _ := m.letters(exitOK, append([]string{"ls"}, elsewhere...)...); !strings.Contains(out, "a1") {
		t.Errorf("ls prints %s", out)
	}
	if out, _ := m.letters(exitOK, "ls"); out != "no letters\n" {
		t.Errorf("ls of the first account prints %s", out)
	}
	m.breaks()
	m.letters(exitOK, append([]string{"redrive", "--all", "--yes"}, elsewhere...)...)
	m.until(func() bool { return m.letterList() == "" })
}

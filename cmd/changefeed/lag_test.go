package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// handled runs a processor on the account until it has handled all existing orders.
func (a *account) handled() {
	a.t.Helper()
	stop := a.processing(nil)
	deadline := time.Now().Add(long)
	for {
		code, out, errOut := a.run("lag", "--json")
		if code != exitOK {
			a.t.Fatalf("%d: %s", code, errOut)
		}
		if m := measured(a.t, out); m.Total.Lag != nil && *m.Total.Lag == 0 && m.Total.Unknown == 0 {
			break
		}
		if time.Now().After(deadline) {
			a.t.Fatalf("the processor doesn't catch up: %s", out)
		}
	}
	stop()
}

// measurement is the JSON that `lag --json` prints.
type measurement struct {
	Processor string
	Leases    []struct {
		Lease, Partition, Min, Max, Position, State, Owner, Continuation, Error string
		Lag, AgeSeconds                                                         *int64
		Reference                                                               int64
		Splitting, Unstarted                                                    bool
	}
	Total struct {
		Leases, Owned, Live, Expired, Unknown, Failed, Splitting int
		Lag, AgeSeconds                                          *int64
		Reference                                                int64
		RequestUnits                                             float64
	}
}

func measured(t *testing.T, text string) (m measurement) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &m); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return m
}

func TestLagShowsEachLeaseAndTheTotal(t *testing.T) {
	a := newAccount(t)
	for i := range 20 {
		a.order(i)
	}
	a.handled()
	code, out, errOut := a.run("lag")
	if want := regexp.MustCompile(`^LEASE +PARTITION +STATE +OWNER +LAG +AGE +POSITION\n` +
		`0 +0 +free +- +0 +- +LSN \d+\n1 +1 +free +- +0 +- +LSN \d+\n2 leases, 0 live; nothing is unread \([0-9.]+ RU\)\n$`); code != exitOK || !want.MatchString(out) {
		t.Errorf("%d: %s%s", code, out, errOut)
	}
	a.order(20)
	code, out, errOut = a.run("lag")
	if want := regexp.MustCompile(`\n[01] +[01] +free +- +1 +\S+ +LSN \d+\n(.|\n)*2 leases, 0 live; 1 transaction unread`); code != exitOK || !want.MatchString(out) {
		t.Errorf("%d: %s%s", code, out, errOut)
	}
	code, out, errOut = a.run("lag", "--json")
	m := measured(t, out)
	if code != exitOK || m.Processor != "p" || len(m.Leases) != 2 || *m.Total.Lag != 1 || m.Total.Reference != 1 || m.Total.RequestUnits <= 0 {
		t.Errorf("%d: %s%s", code, out, errOut)
	}
	if l := m.Leases; *l[0].Lag+*l[1].Lag != 1 || l[0].Partition != "0" || l[0].Min != "" || l[1].Max != "FF" || l[0].Position == "" || l[0].Continuation == "" || l[0].AgeSeconds == nil {
		t.Errorf("%s", out)
	}
	if _, err := a.orders.Split(t.Context(), "1", ""); err != nil {
		t.Fatal(err)
	}
	code, out, errOut = a.run("lag")
	if want := regexp.MustCompile(`\n1 +- +free +- +\? +\? +LSN \d+ +its partition was split or merged\n2 leases, .*unknown for 1 lease; 1 lease of a partition that was split or merged`); code != exitOK || !want.MatchString(out) {
		t.Errorf("%d: %s%s", code, out, errOut)
	}
	_, out, _ = a.run("lag", "--json")
	if m := measured(t, out); m.Leases[1].Lag != nil || m.Leases[1].Reference != 1 || !m.Leases[1].Splitting || m.Total.Splitting != 1 {
		t.Errorf("%s", out)
	}
}

// Each partition counts its own LSNs, so many writes to one partition do not change the lag
// of another. After a merge, a position may have an LSN for each former partition.
func TestLagCountsOnlyTheWritesOfItsPartition(t *testing.T) {
	a := newAccount(t)
	a.order(0)
	a.handled()
	parts, err := a.orders.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	low, high := 0, 0 // the unread orders of each partition
	for i := 1; low < 2 || high < 300; i++ {
		key, err := a.orders.KeyRange(feed.PartitionKey{fmt.Sprint("c", i)})
		if err != nil {
			t.Fatal(err)
		}
		n := &high
		if parts[0].Range.Holds(key.Min) {
			n = &low
		}
		if n == &low && low == 2 {
			continue
		}
		a.order(i)
		*n++
	}
	wantLag := func(want string) {
		t.Helper()
		code, out, errOut := a.run("lag")
		if !regexp.MustCompile(want).MatchString(out) || code != exitOK {
			t.Errorf("status %d: %s%s; want %s", code, out, errOut, want)
		}
	}
	wantLag(fmt.Sprintf(`\n0 +0 +free +- +2 +\S+ +\S+ *\S*\n1 +1 +free +- +%d +\S+ +LSN 1\n2 leases, 0 live; %d transactions unread`, high, 2+high))

	merged, err := a.orders.Merge(t.Context(), "0", "1")
	if err != nil {
		t.Fatal(err)
	}
	identity, err := a.db.Source(a.orders).Identity(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leases, err := a.db.Leases(a.leases).In(lease.DotNet).Open(t.Context(), lease.Key{Processor: "p", Identity: identity})
	if err != nil {
		t.Fatal(err)
	}
	listing, err := leases.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l := lease.ForPartition(merged)
	l.Continuation = feed.Continuation(`"2;7F:3"`)
	for _, old := range listing.Leases {
		if err := leases.Delete(t.Context(), old); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := leases.Create(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	wantLag(`\n2 +2 +free +- +[1-9]\d* +\S+ +"2;7F:3"\n1 lease, 0 live; `)
	if code, out, errOut := a.run("leases", "ls"); code != exitOK || !strings.Contains(out, ` "2;7F:3"`) {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
	if code, out, errOut := a.run("leases", "check"); code != exitOK {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
}

func TestLagFailsWhenALeaseCannotBeReadAndShowsTheOthers(t *testing.T) {
	s := leasesOf(t)
	odd := whole(s.live[1], 0)
	odd.Continuation = "nothing that the service knows"
	s.edit(func(db *store.DB) { s.put(db, s.codec.Encode(odd)) })
	code, out, errOut := command(t, "lag", "--data", s.dir, "--database", "shop", "--container", "orders")
	if code != exitFailed || !strings.Contains(errOut, "1 of 3 leases could not be read") || !strings.Contains(out, "not read: ") ||
		!strings.Contains(out, "3 leases, 0 live; nothing is unread") && !strings.Contains(out, "unknown for 1 lease") {
		t.Errorf("%d: %s%s", code, out, errOut)
	}
	for line := range strings.Lines(out) { // the error has the whole reason
		if len(line) > 140 {
			t.Errorf("%d characters: %s", len(line), line)
		}
	}
}

// `lag` also shows leases that hosts of Java's processor have written.
func TestLagReadsJavasLeases(t *testing.T) {
	s := leasesOf(t)
	s.edit(func(db *store.DB) {
		codec, err := lease.NewCodec(lease.JavaHandleChanges, lease.Key{Processor: "java", Identity: s.identity}, false)
		if err != nil {
			t.Fatal(err)
		}
		for i, p := range s.live {
			s.put(db, codec.Encode(whole(p, 10*(i+1))))
		}
	})
	code, out, errOut := command(t, "lag", "--data", s.dir, "--database", "shop", "--container", "orders", "--processor", "java")
	if code != exitOK || !strings.Contains(out, "3 leases, 0 live; nothing is unread") {
		t.Errorf("%d: %s%s", code, out, errOut)
	}
}

func TestLagWatchesUntilInterruptedAndOffersMetrics(t *testing.T) {
	a := newAccount(t)
	for i := range 20 {
		a.order(i)
	}
	a.handled()
	file := filepath.Join(t.TempDir(), "key")
	write(t, file, a.key)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, lines := io.Pipe()
	errOut, errors := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{
			"lag", "--watch", "--interval", "10ms", "--json", "--metrics", "127.0.0.1:0",
			"--endpoint", a.endpoint, "--key-file", file, "--database", "shop", "--container", "orders",
		}, strings.NewReader(""), lines, errors)
		_ = lines.Close()
		_ = errors.Close()
	}()
	told := bufio.NewScanner(errOut)
	if !told.Scan() || !strings.HasPrefix(told.Text(), "metrics at http://127.0.0.1:") {
		t.Fatalf("told %q", told.Text())
	}
	url := strings.TrimPrefix(told.Text(), "metrics at ")
	measurements := bufio.NewScanner(out)
	next := func() measurement {
		if !measurements.Scan() {
			t.Fatal("the command has ended")
		}
		return measured(t, measurements.Text())
	}
	if m := next(); *m.Total.Lag != 0 {
		t.Errorf("%+v", m)
	}
	a.order(20)
	for m := next(); *m.Total.Lag != 1; m = next() {
		if *m.Total.Lag != 0 {
			t.Fatalf("%+v", m)
		}
	}
	page := scrape(t, url)
	for _, metric := range []string{
		`changefeed_estimator_lag{processor="p"} 1`, `changefeed_estimator_leases{processor="p",state="free"} 2`,
		`changefeed_estimator_lease_age_seconds{lease="0",processor="p"}`, "go_goroutines ",
	} {
		if !strings.Contains(page, metric) {
			t.Errorf("%s isn't in\n%s", metric, page)
		}
	}
	stop()
	go func() { _, _ = io.Copy(io.Discard, out) }()
	go func() { _, _ = io.Copy(io.Discard, errOut) }()
	if code := <-ended; code != exitOK {
		t.Errorf("interrupted, it exits with %d", code)
	}
}

// If a lease cannot be read, the table of `lag` shows the error in one line. The error of
// azcore has many lines.
func TestLagReportsInALineWhyALeaseCannotBeRead(t *testing.T) {
	a := newAccount(t)
	a.order(1)
	a.handled()
	file := filepath.Join(t.TempDir(), "key")
	write(t, file, a.key)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	out, lines := io.Pipe()
	ended := make(chan int, 1)
	go func() {
		ended <- run(ctx, []string{
			"lag", "--watch", "--interval", "10ms", "--endpoint", a.endpoint, "--key-file", file, "--database", "shop", "--container", "orders",
		}, strings.NewReader(""), lines, io.Discard)
		_ = lines.Close()
	}()
	printed := bufio.NewScanner(out)
	for n := 0; printed.Scan(); n++ {
		if n == 0 {
			if err := a.db.DeleteContainer(t.Context(), "shop", "orders"); err != nil {
				t.Fatal(err)
			}
		}
		if !strings.Contains(printed.Text(), "not read: ") {
			continue
		}
		if !strings.HasPrefix(printed.Text(), "0 ") || !strings.Contains(printed.Text(), "the account answers 404: ") {
			t.Errorf("lease 0 is %q", printed.Text())
		}
		if !printed.Scan() || !strings.HasPrefix(printed.Text(), "1 ") {
			t.Errorf("below it is %q; want lease 1", printed.Text())
		}
		if !printed.Scan() || !strings.HasPrefix(printed.Text(), "2 leases, ") {
			t.Errorf("below that is %q; want the total", printed.Text())
		}
		break
	}
	stop()
	go func() { _, _ = io.Copy(io.Discard, out) }()
	if code := <-ended; code != exitOK {
		t.Errorf("interrupted, it exits with %d", code)
	}
}

func TestLagRefusesWrongFlagsByName(t *testing.T) {
	for _, args := range [][]string{
		{"--interval", "0s"}, {"--expiration", "0s"}, {"--metrics", "127.0.0.1:0"}, {"--watch", "--metrics", "9081"}, {"--dialect", "cobol"},
	} {
		code, _, errOut := command(t, append([]string{"lag", "--data", "x", "--database", "d", "--container", "c"}, args...)...)
		if flag := args[len(args)-2]; code != exitUsage || !strings.Contains(errOut, flag) {
			t.Errorf("%v: %d: %s", args, code, errOut)
		}
	}
}

// If a processor has a marker but no leases, its leases were deleted. `lag` then shows
// "reference" as 1 and exits with a failure. A scaler that reads 1 starts a host, which
// creates the leases.
func TestLagOfAProcessorWithoutLeasesIsShownAndFails(t *testing.T) {
	s := leasesOf(t)
	codec, err := lease.NewCodec(lease.DotNet, lease.Key{Processor: "away", Identity: s.identity}, false)
	if err != nil {
		t.Fatal(err)
	}
	s.edit(func(db *store.DB) { s.put(db, codec.Marker()) })
	args := []string{"lag", "--data", s.dir, "--database", "shop", "--container", "orders", "--processor", "away"}
	code, out, errOut := command(t, args...)
	if code != exitFailed || !strings.Contains(out, "0 leases, 0 live") || !strings.Contains(errOut, `leases of processor "away": not found; check its name`) {
		t.Errorf("%d: %s%s", code, out, errOut)
	}
	code, out, _ = command(t, append(args, "--json")...)
	if m := measured(t, out); code != exitFailed || m.Total.Reference != 1 || m.Total.Leases != 0 || m.Total.Lag != nil {
		t.Errorf("%d: %s", code, out)
	}
}

// A scaler asks before the first host has created a marker, too. Nothing was printed then.
func TestLagPrintsJSONBeforeTheFirstHost(t *testing.T) {
	dir := shop(t, 0)
	checkStore(t, dir, func(db *store.DB) {
		if _, err := db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}}); err != nil {
			t.Fatal(err)
		}
	})
	for _, more := range [][]string{{"--json"}, {"--json", "--watch"}} {
		code, out, errOut := command(t, append([]string{"lag", "--data", dir, "--database", "shop", "--container", "orders", "--processor", "mailer"}, more...)...)
		if regexp.MustCompile(`"time": ?"[^"]*\.`).MatchString(out) { // with leases it has whole seconds
			t.Errorf("the time has fractions of a second: %s", out)
		}
		if m := measured(t, out); code != exitFailed || m.Processor != "mailer" || m.Total.Reference != 1 || m.Leases == nil || m.Total.Lag != nil || !strings.Contains(errOut, "there are no leases of shop/orders") {
			t.Errorf("%v: status %d: %s%s", more, code, out, errOut)
		}
	}
}

// `lag` finds the leases of a processor without a name. Azure Functions' processor has
// none by default.
func TestLagOfAProcessorWithoutAName(t *testing.T) {
	s := leasesOf(t)
	nameless, err := lease.NewCodec(lease.DotNet, lease.Key{Identity: s.identity}, false)
	if err != nil {
		t.Fatal(err)
	}
	s.edit(func(db *store.DB) {
		for i, p := range s.live[:2] {
			s.put(db, nameless.Encode(whole(p, 10*(i+1))))
		}
		s.put(db, nameless.Marker())
	})
	code, out, errOut := command(t, "lag", "--data", s.dir, "--database", "shop", "--container", "orders", "--processor", "")
	if code != exitOK || !strings.Contains(out, "2 leases, 0 live; nothing is unread") {
		t.Errorf("%d: %s%s", code, out, errOut)
	}
}

// `lag` counts expired leases apart from live ones. A process that was killed keeps its
// leases until they expire, and their documents name it as the owner even later.
func TestLagSeparatesLiveLeasesFromExpiredOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := leasesOf(t)
		lag := func(args ...string) (string, measurement) {
			t.Helper()
			args = append([]string{"lag", "--data", s.dir, "--database", "shop", "--container", "orders"}, args...)
			code, text, errOut := command(t, args...)
			codeOfJSON, object, _ := command(t, append(args, "--json")...)
			if code != exitOK || codeOfJSON != exitOK {
				t.Fatalf("status %d and %d: %s%s", code, codeOfJSON, text, errOut)
			}
			return text, measured(t, object)
		}
		s.owned(1, "host-1/0123abcd")
		for _, c := range []struct {
			after         time.Duration
			args          []string
			state         string
			live, expired int
		}{
			{0, nil, "live", 1, 0},
			{59 * time.Second, nil, "live", 1, 0},
			{0, []string{"--expiration", "30s"}, "expired", 0, 1},
			{3 * time.Second, nil, "expired", 0, 1},
			{0, []string{"--expiration", "2m"}, "live", 1, 0},
		} {
			time.Sleep(c.after)
			text, m := lag(c.args...)
			row := regexp.MustCompile(`(?m)^` + s.live[1].ID + ` +\S+ +` + c.state + ` +host-1 `)
			if !row.MatchString(text) || !strings.Contains(text, fmt.Sprintf("3 leases, %d live", c.live)) || strings.Contains(text, "1 expired") != (c.expired == 1) {
				t.Errorf("%v: %s", c, text)
			}
			if m.Leases[0].State != "free" || m.Leases[1].State != c.state || m.Total.Owned != 1 || m.Total.Live != c.live || m.Total.Expired != c.expired {
				t.Errorf("%v: %+v", c, m)
			}
		}
	})
}

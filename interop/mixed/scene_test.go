package mixed

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/interop/internal/harness"
)

// These are the names of the modes in Java's builder.
const (
	handleChanges = "handleChanges"
	latestVersion = "latestVersion"
	allVersions   = "allVersions"
)

const (
	// patience is the maximum duration of any step. It is several lease expirations of 8
	// s, for a busy machine.
	patience = 120 * time.Second
	// batch is the maximum number of changes in a page.
	batch = 10
	// partitions is the number of partitions at the start of a scene.
	partitions = 4
)

// intervals are the intervals of all hosts, in milliseconds. They are short, but have the
// proportions of the defaults.
const intervals = "renew=2000 acquire=1000 expire=8000 poll=250 request=3000"

// scene is one run of a scene in one mode, with its own containers, hosts and writer.
type scene struct {
	*testing.T
	*harness.Driver
	mode           string
	database       string
	monitored      harness.Container
	leaseContainer harness.Container
	deliveries     *deliveries
	writer         *writer
	began          time.Time
	since          time.Time // the start time of its hosts; if zero, they start at the beginning, or now in all versions and deletes mode
	hosts          map[string]*harness.Process

	mu    sync.Mutex // guards lines
	lines []string   // output lines of the hosts, without those about changes
}

// newScene creates the containers of a scene. When the test ends, the scene's hosts and
// its writer stop.
func newScene(t *testing.T, driver *harness.Driver, mode, database string) *scene {
	t.Helper()
	s := &scene{
		T: t, Driver: driver, mode: mode, database: database, began: time.Now(), hosts: map[string]*harness.Process{},
		monitored:      harness.Container{Database: database, Name: "monitored"},
		leaseContainer: harness.Container{Database: database, Name: "leases"},
		deliveries:     newDeliveries(mode == allVersions),
	}
	s.writer = &writer{client: driver.Client, at: s.monitored, to: s.deliveries, hot: map[string]bool{}}
	s.ok(driver.Client.CreateDatabase(t.Context(), database))
	s.ok(driver.Client.CreateContainer(t.Context(), s.monitored, "/pk", partitions))
	s.ok(driver.Client.CreateContainer(t.Context(), s.leaseContainer, "/id", 1))
	t.Cleanup(func() {
		_ = s.writer.stop() // judge has reported an error of the writer, unless the scene failed before
		if t.Failed() {
			t.Logf("%s\nhosts said: %.3000s", s.deliveries.summary(), s.said())
		}
	})
	return s
}

// logf logs a line with the time since the scene began.
func (s *scene) logf(format string, args ...any) {
	s.Helper()
	s.Logf("%5.1f s  %s", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// ok ends the scene if err is not nil.
func (s *scene) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// eventually waits, at most for patience, until holds returns true. It reports whether it
// did.
func eventually(holds func() bool) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if holds() {
			return true
		}
	}
	return false
}

// start starts the named hosts, each in a process of its own.
func (s *scene) start(hosts ...string) {
	s.Helper()
	from := "beginning"
	switch {
	case !s.since.IsZero():
		from = s.since.UTC().Format(time.RFC3339)
	case s.mode == allVersions:
		from = "now"
	}
	for _, h := range hosts {
		s.startAs(h, s.mode, from)
	}
}

// startAs starts a host in the given mode. A host whose name begins with "java" is a Java
// host. from is its start time.
func (s *scene) startAs(host, mode, from string) {
	s.Helper()
	line := func(fields []string) {
		if fields[0] == "change" {
			s.deliveries.line(fields)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lines = append(s.lines, strings.Join(fields, " "))
	}
	if isJava(host) {
		// All hosts share a few processors. So Java gets a small heap and its fast
		// compiler.
		s.hosts[host] = s.LaunchJava(s.T, host, line, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
	} else {
		s.hosts[host] = s.LaunchGo(s.T, host, line)
	}
	s.logf("%s starts", host)
	s.ok(s.hosts[host].Command(s.Context(), fmt.Sprintf("start %s mode=%s database=%s monitored=%s leases=%s prefix=mixed from=%s items=%d %s",
		host, mode, s.database, s.monitored.Name, s.leaseContainer.Name, from, batch, intervals)))
}

// command sends the command verb (block, unblock or stop) to a host.
func (s *scene) command(verb, host string) {
	s.Helper()
	s.logf("%s: %s", host, verb)
	s.ok(s.hosts[host].Command(s.Context(), verb+" "+host))
}

// kill kills a host with SIGKILL.
func (s *scene) kill(host string) {
	s.Helper()
	s.logf("%s is killed", host)
	s.hosts[host].Kill()
}

// stop stops a host and its process.
func (s *scene) stop(host string) {
	s.Helper()
	s.command("stop", host)
	// Java's hosts release their leases only after stop has returned. A lease that they
	// are acquiring at that moment must expire.
	holds := func() bool {
		return slices.ContainsFunc(s.leases(), func(l lease) bool { return l.host() == host })
	}
	for end := time.Now().Add(5 * time.Second); isJava(host) && holds(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(end) {
			s.logf("%s has stopped, and leaves a lease to expire", host)
			break
		}
	}
	s.ok(s.hosts[host].Quit(s.Context()))
}

func isJava(host string) bool { return strings.HasPrefix(host, "java") }

// said returns the last output lines of the hosts, without those about changes.
func (s *scene) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines[max(0, len(s.lines)-12):], "\n")
}

// heard reports whether a host has printed a line that contains all the given words.
func (s *scene) heard(host string, words ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.lines, func(line string) bool {
		return strings.Contains(line, " "+host+" ") && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
	})
}

// begin starts the hosts and then the writer. It waits until each host owns a fair share
// of the leases.
func (s *scene) begin(hosts ...string) {
	s.Helper()
	s.start(hosts...)
	s.positioned()
	s.writer.start(s.Context())
	s.settled(partitions, hosts...)
}

// positioned waits until every lease has a position. In all versions and deletes mode,
// writes before that may be missed.
func (s *scene) positioned() {
	s.Helper()
	if !eventually(func() bool {
		all := s.leases()
		return len(all) == partitions && !slices.ContainsFunc(all, func(l lease) bool { return l.ContinuationToken == nil })
	}) {
		s.Fatalf("a lease has no position after %s", patience)
	}
}

// delivers waits until each of the given hosts has delivered a change from now on. After
// a steal, our hosts wait for an expiration before they read the lease.
func (s *scene) delivers(hosts ...string) {
	s.Helper()
	mark := s.deliveries.mark()
	for _, h := range hosts {
		if !eventually(func() bool { return len(s.deliveries.since(mark, h)) > 0 }) {
			s.Fatalf("%s delivered no change in %s", h, patience)
		}
	}
	s.logf("%v deliver", hosts)
}

// complete waits until every change has been delivered.
func (s *scene) complete() {
	s.Helper()
	if !eventually(func() bool { return len(s.deliveries.missing()) == 0 }) {
		missing := s.deliveries.missing()
		s.Fatalf("%d changes were never delivered, among them %q", len(missing), missing[:min(5, len(missing))])
	}
}

// judge stops the writer, waits until all changes have been delivered, and stops the
// given hosts. It then fails the test if the deliveries do not match the writes.
func (s *scene) judge(hosts ...string) {
	s.Helper()
	s.ok(s.writer.stop())
	s.complete()
	for _, h := range hosts {
		s.stop(h)
	}
	s.ok(s.deliveries.order())
	for _, l := range s.leases() {
		// If our host stops during its wait after a steal, it does not release the lease,
		// which must expire. In that case it has not printed "acquired" for the lease.
		if h := l.host(); slices.Contains(hosts, h) && s.heard(h, "acquired", *l.LeaseToken) {
			s.Fatalf("%s stopped and still owns lease %s", *l.Owner, l.ID)
		}
	}
	s.logf("%s", s.deliveries.summary())
}

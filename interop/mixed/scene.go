package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/interop/internal/harness"
)

// The modes, by the names of Java's builder.
const (
	handleChanges = "handleChanges"
	latestVersion = "latestVersion"
	allVersions   = "allVersions"
)

const (
	// patience is the longest time of any step: several expirations of 8 s, on a busy machine.
	patience = 120 * time.Second
	// batch is the number of changes of a page.
	batch = 10
	// partitions is the number of partitions at the beginning of a scene.
	partitions = 4
)

// intervals are short, in the proportions of the defaults, and the same for all hosts.
const intervals = "renew=2000 acquire=1000 expire=8000 poll=250 request=3000"

// A scene has containers of its own, hosts that come and go, and a writer.
type scene struct {
	*stage
	mode           string
	name, database string
	monitored      harness.Container
	leaseContainer harness.Container
	deliveries     *deliveries
	writer         *writer
	began          time.Time
	since          time.Time // where its hosts start; zero: the beginning, or now in all versions and deletes mode

	mu    sync.Mutex                  // guards the rest
	hosts map[string]*harness.Process // those that run
	lines []string                    // what hosts said beside changes
}

// A stage has the server and the hosts' programs of all scenes.
type stage struct {
	harness.Driver
	out io.Writer
}

// newScene creates the containers of a scene. If database is empty, the scene's name is used.
func (s *stage) newScene(ctx context.Context, mode, name, database string) (*scene, error) {
	if database == "" {
		database = name + "-" + mode
	}
	c := &scene{
		stage: s, mode: mode, name: name, database: database, began: time.Now(), hosts: map[string]*harness.Process{},
		monitored:      harness.Container{Database: database, Name: "monitored"},
		leaseContainer: harness.Container{Database: database, Name: "leases"},
		deliveries:     newDeliveries(mode == allVersions),
	}
	c.writer = newWriter(s.Client, c.monitored, c.deliveries)
	return c, errors.Join(
		s.Client.CreateDatabase(ctx, database),
		s.Client.CreateContainer(ctx, c.monitored, "/pk", partitions),
		s.Client.CreateContainer(ctx, c.leaseContainer, "/id", 1),
	)
}

// logf prints a line with the time since the scene began.
func (s *scene) logf(format string, args ...any) {
	harness.Printf(s.out, "    %5.1f s  %s\n", time.Since(s.began).Seconds(), fmt.Sprintf(format, args...))
}

// eventually waits until holds returns true or an error.
func (s *scene) eventually(ctx context.Context, holds func() (bool, error)) error {
	for end := time.Now().Add(patience); ; {
		ok, err := holds()
		if ok || err != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("not within %s; hosts said: %.1000s", patience, s.said())
		}
		if err := pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// launch starts a process for a host: a Java one if its name begins with "java".
func (s *scene) launch(ctx context.Context, host string) (*harness.Process, error) {
	take := func(fields []string) {
		if fields[0] == "change" {
			s.deliveries.line(fields)
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lines = append(s.lines, strings.Join(fields, " "))
	}
	var p *harness.Process
	var err error
	if isJava(host) {
		// The hosts share few processors: a small heap and the quick compiler.
		p, err = s.LaunchJava(ctx, host, take, "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
	} else {
		p, err = s.LaunchGo(ctx, host, take)
	}
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts[host] = p
	return p, nil
}

// from returns the start of the hosts of a scene.
func (s *scene) from() string {
	if !s.since.IsZero() {
		return s.since.UTC().Format(time.RFC3339)
	}
	if s.mode == allVersions {
		return "now"
	}
	return "beginning"
}

// start starts hosts, each a process of its own.
func (s *scene) start(ctx context.Context, hosts ...string) error {
	for _, h := range hosts {
		if err := s.startAs(ctx, h, s.mode, s.from()); err != nil {
			return err
		}
	}
	return nil
}

func (s *scene) startAs(ctx context.Context, host, mode, from string) error {
	p, err := s.launch(ctx, host)
	if err != nil {
		return err
	}
	s.logf("%s starts", host)
	return p.Command(ctx, fmt.Sprintf("start %s mode=%s database=%s monitored=%s leases=%s prefix=mixed from=%s items=%d %s",
		host, mode, s.database, s.monitored.Name, s.leaseContainer.Name, from, batch, intervals))
}

// take removes a host from those that run.
func (s *scene) take(host string) *harness.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.hosts[host]
	delete(s.hosts, host)
	return p
}

// kill ends a host by SIGKILL.
func (s *scene) kill(host string) {
	s.logf("%s is killed", host)
	s.take(host).Kill()
}

// stop ends a host in good order, and its process.
func (s *scene) stop(ctx context.Context, host string) error {
	s.logf("%s stops", host)
	p := s.take(host)
	if err := p.Command(ctx, "stop "+host); err != nil {
		p.Kill()
		return err
	}
	// Java's hosts release their leases after stop has returned. A lease that they were acquiring
	// expires.
	for end := time.Now().Add(5 * time.Second); isJava(host); {
		all, err := s.leases(ctx)
		if err != nil {
			p.Kill()
			return err
		}
		left := slices.ContainsFunc(all, func(l lease) bool { return l.host() == host })
		if left && time.Now().After(end) {
			s.logf("%s has stopped, and leaves a lease to expire", host)
		} else if left {
			if err := pause(ctx, 100*time.Millisecond); err != nil {
				p.Kill()
				return err
			}
			continue
		}
		break
	}
	return p.Quit(ctx)
}

func isJava(host string) bool { return strings.HasPrefix(host, "java") }

// end kills the hosts that still run after a scene that failed.
func (s *scene) end() {
	s.mu.Lock()
	var left []*harness.Process
	for _, p := range s.hosts {
		left = append(left, p)
	}
	s.mu.Unlock()
	for _, p := range left {
		p.Kill()
	}
}

// said returns the last lines of the hosts, without changes.
func (s *scene) said() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines[max(0, len(s.lines)-12):], "\n      ")
}

// heard reports whether a host printed a line with all these words.
func (s *scene) heard(host string, words ...string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.ContainsFunc(s.lines, func(line string) bool {
		return strings.Contains(line, " "+host+" ") && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(line, w) })
	})
}

// positioned waits until every lease has a position. Before that, all versions and deletes mode may
// miss writes.
func (s *scene) positioned(ctx context.Context) error {
	return s.eventually(ctx, func() (bool, error) {
		all, err := s.leases(ctx)
		return len(all) == partitions && !slices.ContainsFunc(all, func(l lease) bool { return l.ContinuationToken == nil }), err
	})
}

// judge stops the writer, waits for the last deliveries, and stops the hosts that are left. Then it
// compares the deliveries with the writes.
func (s *scene) judge(ctx context.Context, hosts ...string) error {
	if err := s.writer.stop(); err != nil {
		return fmt.Errorf("a write: %w", err)
	}
	err := s.eventually(ctx, func() (bool, error) { return len(s.deliveries.missing()) == 0, nil })
	if missing := s.deliveries.missing(); len(missing) > 0 {
		return fmt.Errorf("%d changes were never delivered, among them %q: %w; %s", len(missing), missing[:min(5, len(missing))], err, s.deliveries.summary())
	}
	for _, h := range hosts {
		if err := s.stop(ctx, h); err != nil {
			return err
		}
	}
	if err := s.deliveries.order(); err != nil {
		return err
	}
	all, err := s.leases(ctx)
	if err != nil {
		return err
	}
	for _, l := range all {
		// One that was stolen and still waited for is left to expire, with its former owner.
		if h := l.host(); slices.Contains(hosts, h) && s.heard(h, "acquired", *l.LeaseToken) {
			return fmt.Errorf("lease %s is still %s's, who has stopped", l.ID, *l.Owner)
		}
	}
	s.logf("%s", s.deliveries.summary())
	return nil
}

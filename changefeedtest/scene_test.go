package changefeedtest

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// scene is a world with a script. The checker checks every step of the script, as in the
// seeds.
type scene struct {
	*world
	t        *testing.T
	operator lease.Store
	next     int

	noteMu sync.Mutex // guards notes
	notes  map[*host][]changefeed.Notification
}

// option configures a scene.
type option func(*worldConfig, *setting)

// setting is the configuration of a scene's engine.
type setting struct {
	partitions int
	mode       feed.Mode

	// Only the engine in memory supports the settings below. why names the reason.
	offset       time.Duration // offset of the engine's clock
	refusesTimes bool          // start times are refused on merged partitions
	why          string
}

func partitions(n int) option { return func(_ *worldConfig, s *setting) { s.partitions = n } }

func offset(d time.Duration) option {
	return func(_ *worldConfig, s *setting) {
		s.offset, s.why = d, "a wrong clock; a server uses the machine's clock"
	}
}

func refusingTimes() option {
	return func(_ *worldConfig, s *setting) {
		s.refusesTimes, s.why = true, "refused start times; the server serves them"
	}
}

func from(s feed.Start) option { return func(c *worldConfig, _ *setting) { c.start = s } }
func manual() option           { return func(c *worldConfig, _ *setting) { c.checkpoint.Manual = true } }

// play runs a script in a bubble, once on each engine. At the end every change must be
// delivered, the hosts gone, and no invariant violated.
func play(t *testing.T, script func(s *scene), options ...option) {
	t.Helper()
	onEachEngine(t, options, func(t *testing.T, c worldConfig, e engine) {
		c.engine, c.keepTrace = e, true
		s := &scene{world: newWorld(c), t: t, notes: map[*host][]changefeed.Notification{}}
		s.setAdjust(func(h *host, cfg *changefeed.Config) { cfg.Notify = s.noted(h) })
		s.setHandle(func(*simObserver, *changefeed.Batch, int) handling {
			return handling{takes: time.Millisecond, checkpoint: true}
		})
		s.open()
		defer s.judge()
		script(s)
		s.finish()
	})
}

// setFaults sets the faults of calls. The setters lock, because the hosts of a script
// already run.
func (s *scene) setFaults(f func(c call, d *draw, f *fault)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = f
}

func (s *scene) setHandle(f func(o *simObserver, b *changefeed.Batch, attempt int) handling) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handle = f
}

func (s *scene) setAdjust(f func(h *host, cfg *changefeed.Config)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.adjust = f
}

// tolerate disables the check of exclusive use.
func (c *checker) tolerate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.exclusive = false
}

func (s *scene) open() {
	id, err := s.engine.source().Identity(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	s.operator, err = s.engine.leases().Open(s.t.Context(), lease.Key{Processor: "sim", Identity: id, Mode: s.mode})
	if err != nil {
		s.t.Fatal(err)
	}
}

// noted returns a function that records a host's notifications.
func (s *scene) noted(h *host) func(changefeed.Notification) {
	return func(n changefeed.Notification) {
		s.noteMu.Lock()
		defer s.noteMu.Unlock()
		s.notes[h] = append(s.notes[h], n)
	}
}

func (s *scene) notesOf(h *host) []changefeed.Notification {
	s.noteMu.Lock()
	defer s.noteMu.Unlock()
	return slices.Clone(s.notes[h])
}

// judge reports the violations, with the trace.
func (s *scene) judge() {
	s.t.Helper()
	for _, h := range s.everyHost() {
		h.resume()
		h.crash()
		<-h.done
	}
	for _, f := range s.everyForeignHost() {
		f.resume()
		f.crash()
		<-f.done
	}
	s.pending.Wait()
	for _, v := range s.check.violations() {
		s.t.Error(v)
	}
	if s.t.Failed() {
		text := s.trace.String()
		if over := len(text) - 30_000; over > 0 {
			text = "...\n" + text[over:]
		}
		s.t.Log("\n" + text)
	}
}

// finish lets the scene come to rest. All keys must be covered and all changes delivered.
// Then the hosts leave and release their leases.
func (s *scene) finish() {
	s.t.Helper()
	for _, f := range s.everyForeignHost() {
		s.dismiss(f)
	}
	s.calm()
	if len(s.living()) == 0 {
		s.join("last")
	}
	s.sleep(s.times.recovery())
	s.check.covers()
	s.check.allHandled()
	for _, h := range s.living() {
		h.leave()
		<-h.done
	}
	s.check.allFree()
}

// dismiss stops a foreign host, which releases its leases.
func (s *scene) dismiss(f *host) {
	f.resume()
	f.cancel()
	<-f.done
}

func (s *scene) sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// add writes n new items in one transaction each, spread over the keys.
func (s *scene) add(n int) {
	s.t.Helper()
	for range n {
		s.next++
		s.addTo(fmt.Sprintf("k%d", s.next))
	}
}

// addTo writes one new item of a key.
func (s *scene) addTo(key string) {
	s.t.Helper()
	s.next++
	id := "item-" + strconv.Itoa(s.next)
	err := s.write(s.t.Context(), itemWrite{key: feed.PartitionKey{key}, id: id, document: map[string]any{"id": id, "pk": key}})
	if err != nil {
		s.t.Fatal(err)
	}
}

// keyIn returns a key whose items are in a range.
func (s *scene) keyIn(r feed.Range) string {
	for i := 0; ; i++ {
		if key := "key" + strconv.Itoa(i); r.Holds(s.engine.epk(feed.PartitionKey{key})) {
			return key
		}
	}
}

// list returns the current leases.
func (s *scene) list() lease.Listing {
	s.t.Helper()
	l, err := s.operator.List(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// lease returns the current state of a lease.
func (s *scene) lease(token string) lease.Lease {
	s.t.Helper()
	for _, l := range s.list().Leases {
		if l.Token == token {
			return l
		}
	}
	s.t.Fatalf("lease %s does not exist", token)
	return lease.Lease{}
}

func (s *scene) tokens() string {
	var tokens []string
	for _, l := range s.list().Leases {
		tokens = append(tokens, l.Token)
	}
	slices.Sort(tokens) // listings have no order
	return strings.Join(tokens, " ")
}

// deleteByHand deletes a lease document as an operator may.
func (s *scene) deleteByHand(token string) {
	s.t.Helper()
	l := s.lease(token)
	if err := s.operator.Delete(context.Background(), l); err != nil {
		s.t.Fatal(err)
	}
	s.check.operatorDeletes(l)
	s.trace.add("operator", "delete", token, "", 0)
}

// note writes an unknown property to a lease.
func (s *scene) note(token, value string) {
	s.t.Helper()
	l := s.lease(token)
	properties := map[string]string{"note": value}
	for k, v := range l.Properties {
		if k != "note" {
			properties[k] = v
		}
	}
	l.Properties = properties
	stored, err := s.operator.Update(context.Background(), l)
	if err != nil {
		s.t.Fatal(err)
	}
	s.check.operatorWrites(stored)
}

// owned returns the number of leases that a host owns.
func (s *scene) owned(h *host) int {
	n := 0
	for _, l := range s.list().Leases {
		if l.Owner != "" && l.Owner == h.text() {
			n++
		}
	}
	return n
}

// redelivered returns the number of redeliveries.
func (s *scene) redelivered() int {
	_, n := s.journal.counts()
	return n
}

// missing returns the number of unhandled changes, of all that were written.
func (s *scene) missing() int { return len(s.journal.unhandled(0)) }

// made returns the number of calls of an operation without an object.
func (h *host) made(op string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[callName{op: op}]
}

func (s *scene) split(partition string) {
	s.t.Helper()
	if err := s.engine.split(context.Background(), partition); err != nil {
		s.t.Fatal(err)
	}
	s.trace.add("operator", "split", partition, "", 0)
}

func (s *scene) merge(left, right string) {
	s.t.Helper()
	if err := s.engine.merge(context.Background(), left, right); err != nil {
		s.t.Fatal(err)
	}
	s.trace.add("operator", "merge", left+" "+right, "", 0)
}

// initialised waits until the marker exists and every lease has an owner.
func (s *scene) initialised() {
	s.t.Helper()
	for range 100 {
		l := s.list()
		if !l.Initialized.IsZero() && !slices.ContainsFunc(l.Leases, lease.Lease.Free) {
			return
		}
		s.sleep(time.Second)
	}
	s.t.Fatal("the processor is not initialised")
}

// nth returns a function that returns true on its n-th call only.
func nth(n int) func() bool {
	var mu sync.Mutex
	calls := 0
	return func() bool {
		mu.Lock()
		defer mu.Unlock()
		calls++
		return calls == n
	}
}

package simulation

import (
	"context"
	"fmt"
	"math"
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

// scene is a simulation that follows a script instead of a seed's events. The rules
// judge every step of the script.
type scene struct {
	*world
	t        *testing.T
	operator lease.Store
	next     int

	noteMu sync.Mutex // guards notes
	notes  map[*host][]changefeed.Notification
}

// option changes the configuration of a scene.
type option func(*worldConfig, *setting)

// setting is the configuration of a scene's engine.
type setting struct {
	partitions int
	mode       feed.Mode

	// Only the engine in memory supports these settings. why describes the setting, for
	// the message of a test that another engine skips.
	offset       time.Duration // offset of the service's clock from the hosts' clock
	refusesTimes bool          // whether the source refuses start times on merged partitions
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

func jumpingClock() option {
	return func(_ *worldConfig, s *setting) {
		s.why = "a clock that jumps; a server uses the machine's clock"
	}
}

func from(s feed.Start) option { return func(c *worldConfig, _ *setting) { c.start = s } }
func manual() option           { return func(c *worldConfig, _ *setting) { c.checkpoint.Manual = true } }

// play runs a script in a bubble, once on each engine. At the end, every change must have
// been delivered, all hosts must have left, and no rule may have been broken.
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

// setFaults sets the function that chooses the faults of calls. It locks s.mu, because
// the hosts of the script may already run.
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

// noted returns a function that records the notifications of host h in s.notes.
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

// judge crashes all hosts, and fails the test for each broken rule. If the test
// failed, it prints the trace.
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
	found, _ := s.world.judge()
	for _, v := range found {
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

// finish waits until the scene is at rest. It checks that the leases cover all keys and
// that all changes were delivered. Then the hosts leave, and must release their leases.
func (s *scene) finish() {
	s.t.Helper()
	for _, f := range s.everyForeignHost() {
		s.dismiss(f.host)
	}
	s.calm()
	if len(s.living()) == 0 {
		s.join("last")
	}
	s.sleep(s.times.recovery())
	s.rests(restCovered, time.Now())
	s.rests(restHandled, time.Now())
	for _, h := range s.living() {
		h.leave()
		<-h.done
	}
	s.rests(restFree, time.Now())
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

// add writes n new items, spread over the keys, each in a transaction of its own.
func (s *scene) add(n int) {
	s.t.Helper()
	for range n {
		s.next++
		s.addTo(fmt.Sprintf("k%d", s.next))
	}
}

// addTo writes one new item with the given partition key.
func (s *scene) addTo(key string) {
	s.t.Helper()
	s.next++
	id := "item-" + strconv.Itoa(s.next)
	err := s.write(s.t.Context(), itemWrite{key: feed.PartitionKey{key}, id: id, document: map[string]any{"id": id, "pk": key}})
	if err != nil {
		s.t.Fatal(err)
	}
}

// keyIn returns a partition key whose items lie in range r.
func (s *scene) keyIn(r feed.Range) string {
	for i := 0; ; i++ {
		if key := "key" + strconv.Itoa(i); r.Holds(s.engine.epk(feed.PartitionKey{key})) {
			return key
		}
	}
}

// list returns a listing of the current leases.
func (s *scene) list() lease.Listing {
	s.t.Helper()
	l, err := s.operator.List(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	return l
}

// lease returns the current lease with the given token.
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

// deleteByHand deletes a lease's document, as an operator may.
func (s *scene) deleteByHand(token string) {
	s.t.Helper()
	l := s.lease(token)
	if err := s.operator.Delete(context.Background(), l); err != nil {
		s.t.Fatal(err)
	}
	s.operates(opDelete, l, lease.Lease{})
	s.trace.add("operator", "delete", token, "", 0)
}

// note sets an unknown property of a lease to value, as another tool may.
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
	s.operates(opUpdate, l, stored)
}

// owned returns the number of leases that host h owns now.
func (s *scene) owned(h *host) int {
	n := 0
	for _, l := range s.list().Leases {
		if l.Owner != "" && l.Owner == h.text() {
			n++
		}
	}
	return n
}

// redelivered returns how many changes were delivered again after they had been handled.
func (s *scene) redelivered() int {
	return s.view().journal.writes.redelivered
}

// missing returns the number of changes that were written and have not been handled.
func (s *scene) missing() int {
	return len(s.view().journal.left(feed.Full(), fromStart, math.MaxInt64, delivery.unhandled))
}

// made returns how often the host has called an operation that has no key, such as a
// listing.
func (h *host) made(op string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.calls[callName{op: op}]
}

func (s *scene) split(partition string) {
	s.t.Helper()
	if err := s.engine.split(context.Background(), partition, ""); err != nil {
		s.t.Fatal(err)
	}
	s.changesPartitions()
	s.trace.add("operator", "split", partition, "", 0)
}

func (s *scene) merge(left, right string) {
	s.t.Helper()
	if err := s.engine.merge(context.Background(), left, right); err != nil {
		s.t.Fatal(err)
	}
	s.changesPartitions()
	s.trace.add("operator", "merge", left+" "+right, "", 0)
}

// initialised waits until the marker exists and every lease has an owner.
func (s *scene) initialised() {
	s.t.Helper()
	for range 100 {
		l := s.list()
		if !l.Initialized.IsZero() && !slices.ContainsFunc(l.Leases, func(l lease.Lease) bool { return l.Owner == "" }) {
			return
		}
		s.sleep(time.Second)
	}
	s.t.Fatal("the processor is not initialised")
}

// nth returns a function that returns true at its n-th call, and false at every other
// call.
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

// view returns what follows from the facts so far.
func (w *world) view() *view {
	w.ledger.mu.Lock()
	defer w.ledger.mu.Unlock()
	v := newView(w)
	for v.advance() {
		v.step()
	}
	return v
}

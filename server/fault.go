package server

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Fault makes requests fail that would have succeeded, as they fail in a data center:
// throttled, unavailable, slow, or with an answer that never arrives. The zero
// value of a field that chooses requests chooses all of them.
type Fault struct {
	// Operation is an operation's name, as in the log: "create document", "read
	// change feed". See [Server.Operations].
	Operation string
	// Database and Container are names, or rids.
	Database, Container string
	// Partition is the ID of a physical partition; a request is chosen that
	// addresses any key of it. After a split it chooses nothing any more: Range does.
	Partition string
	// Range is a range of effective partition keys; a request is chosen that
	// addresses any key of it. One without a partition key addresses all keys. The borders are
	// hexadecimal, in either case.
	Range feed.Range
	// Key is a logical partition key; a request is chosen that names it, all its components, in its header. Not chosen is
	// one that has it elsewhere only: a create or upsert with the key in the document alone, a request for a range of keys, a
	// query whose condition says it. Numbers are equal by value.
	Key feed.PartitionKey
	// Match chooses by anything else; it is asked last. It may be called concurrently, and may
	// do what it likes: split a partition, say. Default: all requests. Not in the admin API.
	Match func(*http.Request) bool

	// Skip is how many chosen requests pass before the first fails.
	Skip int
	// Count is how many fail then. Default: all, until the fault is removed.
	Count int
	// Probability is that of each chosen request to fail, above 0 and up to 1.
	// Default: 1. Seed makes the sequence of draws; the same seed fails the same ones of
	// a sequence of requests.
	Probability float64
	Seed        uint64

	// Delay is how long the request waits, for its client to leave at most. Alone, the
	// request is carried out afterwards.
	Delay time.Duration
	// Status is that of the answer, 400 to 599, with SubStatus and Message (default: that
	// it was injected). RetryAfter goes into x-ms-retry-after-ms.
	Status, SubStatus int
	Message           string
	RetryAfter        time.Duration
	// Drop ends the connection without an answer, in place of a Status.
	Drop bool
	// After carries the request out before it fails: the write has happened, and
	// its client doesn't know.
	After bool
}

// The bounds of a Fault.
const (
	// MaxFaults is how many faults a server holds at a time.
	MaxFaults = 1000
	// MaxFaultDelay is the longest Delay.
	MaxFaultDelay = time.Hour
)

// validate says what is wrong with a fault. operations are the known names.
func (f Fault) validate(operations []string) error {
	switch {
	case f.Operation != "" && !slices.Contains(operations, f.Operation):
		return fmt.Errorf("there is no operation %q; there are %q", f.Operation, operations)
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return fmt.Errorf("the status is %d; it is 400 to 599", f.Status)
	case f.SubStatus < 0 || f.SubStatus != 0 && f.Status == 0:
		return fmt.Errorf("the sub-status is %d; it goes with a status", f.SubStatus)
	case f.Status != 0 && f.Drop:
		return errors.New("a dropped connection has no status")
	case f.Status == 0 && !f.Drop && f.Delay == 0:
		return errors.New("it has no effect: give a status, a delay, or drop the connection")
	case f.After && f.Status == 0 && !f.Drop:
		return errors.New("a delay alone comes before the request is carried out; it can't come after")
	case f.Delay < 0 || f.Delay > MaxFaultDelay:
		return fmt.Errorf("the delay is %s; it is at most %s", f.Delay, MaxFaultDelay)
	case f.RetryAfter < 0 || f.RetryAfter > 0 && f.Status == 0:
		return fmt.Errorf("the time to retry after is %s; it goes with a status", f.RetryAfter)
	case !(f.Probability >= 0 && f.Probability <= 1): // nor is it NaN
		return fmt.Errorf("the probability is %v; it is above 0 and up to 1", f.Probability)
	case f.Skip < 0 || f.Count < 0:
		return fmt.Errorf("skip is %d and count %d; neither can be negative", f.Skip, f.Count)
	case f.Container != "" && f.Database == "":
		return errors.New("a container needs its database")
	case f.Partition != "" && f.Container == "":
		return errors.New("a partition needs its container")
	case !isHex(f.Range.Min) || !isHex(f.Range.Max):
		return fmt.Errorf("the range is %.40q to %.40q; its borders are effective partition keys, which are hexadecimal", f.Range.Min, f.Range.Max)
	case !f.Range.IsZero() && f.Range.Intersect(feed.Full()).IsEmpty():
		return fmt.Errorf("the range %s holds no key; min is below max, and below %s", f.Range, feed.MaxEPK)
	case f.Key != nil && len(f.Key) == 0:
		return errors.New("the key has no components, which no request names; leave it out to choose all keys")
	}
	return nil
}

// isHex reports whether an effective partition key is upper-case hexadecimal.
func isHex(epk string) bool { return strings.Trim(epk, "0123456789ABCDEF") == "" }

// normal is the fault with its range and its key as requests have them. Error: the key can't be one.
func (f Fault) normal() (Fault, error) {
	f.Range = feed.Range{Min: strings.ToUpper(f.Range.Min), Max: strings.ToUpper(f.Range.Max)}
	if f.Key == nil {
		return f, nil
	}
	var err error
	if f.Key, err = feed.ParsePartitionKey(f.Key.String()); err != nil {
		return f, fmt.Errorf("the key can't be one: %w", err)
	}
	return f, nil
}

// FaultState is a fault that is set, and what has become of it.
type FaultState struct {
	// ID names the fault.
	ID string
	Fault
	// Hits is how many requests have failed by it.
	Hits int
}

// Faults are the faults that a server injects. The first that chooses a
// request, in the order in which they were added, is the one that it meets. Safe
// for concurrent use.
type Faults struct {
	operations []string
	// set is never changed in place, so that a request without faults costs one load.
	set atomic.Pointer[[]*activeFault]

	mu   sync.Mutex // guards next, and changes of set
	next int
}

// activeFault is a fault and its counters.
type activeFault struct {
	id string
	Fault

	mu     sync.Mutex // guards the rest
	chosen int
	hits   int
	draws  *rand.Rand
}

// Add sets a fault, and returns its ID. Error: what is wrong with it.
func (fs *Faults) Add(f Fault) (string, error) {
	s, err := fs.add(f)
	return s.ID, err
}

// add is Add, and returns the fault as it was set.
func (fs *Faults) add(f Fault) (FaultState, error) {
	f, err := f.normal()
	if err == nil {
		err = f.validate(fs.operations)
	}
	if err != nil {
		return FaultState{}, fmt.Errorf("fault: %w", err)
	}
	a := &activeFault{Fault: f, draws: rand.New(rand.NewPCG(f.Seed, 0))}
	fs.mu.Lock()
	defer fs.mu.Unlock()
	all := fs.active()
	if len(all) >= MaxFaults {
		return FaultState{}, fmt.Errorf("fault: there are %d already, which is the most: remove some", len(all))
	}
	fs.next++
	a.id = strconv.Itoa(fs.next)
	changed := append(slices.Clip(all), a)
	fs.set.Store(&changed)
	return FaultState{ID: a.id, Fault: f}, nil
}

// List returns the faults in their order.
func (fs *Faults) List() []FaultState {
	all := fs.active()
	states := make([]FaultState, len(all))
	for i, a := range all {
		states[i] = a.state()
	}
	return states
}

// Remove ends a fault. It returns false when there is none of that ID. A request that it holds
// goes on as it would have.
func (fs *Faults) Remove(id string) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	all := fs.active()
	kept := slices.DeleteFunc(slices.Clone(all), func(a *activeFault) bool { return a.id == id })
	fs.set.Store(&kept)
	return len(kept) < len(all)
}

// Clear ends all faults.
func (fs *Faults) Clear() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.set.Store(nil)
}

// active are the faults that are set. They must not be changed.
func (fs *Faults) active() []*activeFault {
	if set := fs.set.Load(); set != nil {
		return *set
	}
	return nil
}

func (a *activeFault) state() FaultState {
	a.mu.Lock()
	defer a.mu.Unlock()
	return FaultState{ID: a.id, Fault: a.Fault, Hits: a.hits}
}

// hit counts a chosen request, and reports whether it fails.
func (a *activeFault) hit() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.chosen++
	if a.chosen <= a.Skip || a.Count > 0 && a.hits >= a.Count {
		return false
	}
	if a.Probability > 0 && a.draws.Float64() >= a.Probability {
		return false
	}
	a.hits++
	return true
}

// meets finds the fault that a request meets; nil: none. It may be called for a request once.
func (fs *Faults) meets(x *exchange, t *target) *activeFault {
	for _, a := range fs.active() {
		if a.chooses(x, t) && a.hit() {
			return a
		}
	}
	return nil
}

// chooses reports whether a fault is meant for a request.
func (a *activeFault) chooses(x *exchange, t *target) bool {
	if a.Operation != "" && a.Operation != x.op {
		return false
	}
	if a.Database != "" && !t.inDatabase(a.Database) || a.Container != "" && !t.inContainer(a.Container) {
		return false
	}
	if a.Partition != "" && !t.inPartition(a.Partition) || !a.Range.IsZero() && !t.inRange(a.Range) {
		return false
	}
	if len(a.Key) > 0 && !t.hasKey(a.Key) {
		return false
	}
	return a.Match == nil || a.Match(x.r)
}

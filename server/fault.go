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

// Fault makes requests fail as they fail in a data center: throttled, unavailable, slow,
// or with an answer that never arrives. Fields that select requests narrow the selection,
// and a fault that leaves them all zero selects every request. docs/admin.md describes a
// fault's JSON form.
type Fault struct {
	// Operation is an operation's name as in the log, for instance "create document" or
	// "read change feed". [Operations] lists them.
	Operation string `json:"operation,omitempty"`
	// Database and Container are names or rids.
	Database  string `json:"database,omitempty"`
	Container string `json:"container,omitempty"`
	// Partition is a physical partition's ID, and selects requests that address any of its
	// keys. After a split it selects none, so use Range to cover the children, too.
	Partition string `json:"partition,omitempty"`
	// Range is a range of effective partition keys (hexadecimal, in upper or lower case),
	// and selects requests that address any key in it. A request without a partition key
	// addresses all keys.
	Range feed.Range `json:"-"`
	// Key is a complete logical partition key, and selects requests that have it in their
	// header, but not those that have it only in the document, in a query's condition, or in
	// a range of keys. Numbers are compared by value.
	Key feed.PartitionKey `json:"-"`
	// Match selects requests by anything else, or all if nil. It is called after all other
	// fields match, perhaps concurrently, and may have effects, such as a split. The admin
	// API does not have it.
	Match func(*http.Request) bool `json:"-"`

	// Skip is how many selected requests pass before the first one fails.
	Skip int `json:"skip,omitempty"`
	// Count is how many requests fail after that. If zero, all fail until the fault is
	// removed.
	Count int `json:"count,omitempty"`
	// Probability is how likely a selected request is to fail, above 0 and at most 1. If
	// zero, 1 is used. Seed determines the draws: with the same seed, the same requests in a
	// sequence fail.
	Probability float64 `json:"-"`
	Seed        uint64  `json:"seed,omitempty"`

	// Delay is how long the request waits, up to one hour, unless its client disconnects. If
	// the fault has no other effect, the request is carried out after the delay.
	Delay time.Duration `json:"-"`
	// Status is the answer's status, 400 to 599, with SubStatus and Message. If Message is
	// empty, one about an injected failure is sent. RetryAfter is sent in
	// x-ms-retry-after-ms.
	Status     int           `json:"status,omitempty"`
	SubStatus  int           `json:"subStatus,omitempty"`
	Message    string        `json:"message,omitempty"`
	RetryAfter time.Duration `json:"-"`
	// Drop closes the connection without an answer, and excludes Status.
	Drop bool `json:"drop,omitempty"`
	// After carries the request out before it fails, so that a write has happened but its
	// client receives the failure.
	After bool `json:"after,omitempty"`
}

const (
	// maxFaults is the largest number of faults that a server has at one time.
	maxFaults = 1000
	// maxFaultDelay is the largest value of Fault.Delay.
	maxFaultDelay = time.Hour
)

// validate returns an error if a field of the fault is invalid. operations holds the
// valid values of Fault.Operation.
func (f Fault) validate(operations []string) error {
	switch {
	case f.Operation != "" && !slices.Contains(operations, f.Operation):
		return fmt.Errorf("there is no operation %q; the operations are %s", f.Operation, strings.Join(operations, ", "))
	case f.Status != 0 && (f.Status < 400 || f.Status > 599):
		return fmt.Errorf("the status is %d; it is 400 to 599", f.Status)
	case f.SubStatus < 0 || f.SubStatus != 0 && f.Status == 0:
		return fmt.Errorf("the sub-status is %d; it must not be negative, and needs a status", f.SubStatus)
	case f.Status != 0 && f.Drop:
		return errors.New("a dropped connection has no status")
	case f.Status == 0 && !f.Drop && f.Delay == 0:
		return errors.New("it has no effect; give a status, a delay, or drop the connection")
	case f.After && f.Status == 0 && !f.Drop:
		return errors.New("a delay alone cannot come after the request is carried out; give a status, or drop the connection")
	case f.Delay < 0 || f.Delay > maxFaultDelay:
		return fmt.Errorf("the delay is %s; it is at most %s", f.Delay, maxFaultDelay)
	case f.RetryAfter < 0 || f.RetryAfter > 0 && f.Status == 0:
		return fmt.Errorf("the time to retry after is %s; it must not be negative, and needs a status", f.RetryAfter)
	case !(f.Probability >= 0 && f.Probability <= 1): // true for NaN, too
		return fmt.Errorf("the probability is %v; it must be above 0 and up to 1", f.Probability)
	case f.Skip < 0 || f.Count < 0:
		return fmt.Errorf("skip is %d and count %d; neither can be negative", f.Skip, f.Count)
	case f.Container != "" && f.Database == "":
		return errors.New("a container needs its database")
	case f.Partition != "" && f.Container == "":
		return errors.New("a partition needs its container")
	case !isHex(f.Range.Min) || !isHex(f.Range.Max):
		return fmt.Errorf("the range is %.40q to %.40q; its bounds must be effective partition keys, which are hexadecimal", f.Range.Min, f.Range.Max)
	case !f.Range.IsZero() && f.Range.Intersect(feed.Full()).IsEmpty():
		return fmt.Errorf("the range %s contains no key; min must be below max, and below %s", f.Range, feed.MaxEPK)
	case f.Key != nil && len(f.Key) == 0:
		return errors.New("the key has no components, so no request has it; leave it out to select all keys")
	}
	return nil
}

// isHex reports whether epk consists of upper-case hexadecimal digits.
func isHex(epk string) bool { return strings.Trim(epk, "0123456789ABCDEF") == "" }

// normal returns the fault with its range in upper case and its key as the server parses
// the keys of requests. It returns an error if the key is invalid.
func (f Fault) normal() (Fault, error) {
	f.Range = feed.Range{Min: strings.ToUpper(f.Range.Min), Max: strings.ToUpper(f.Range.Max)}
	if f.Key == nil {
		return f, nil
	}
	var err error
	if f.Key, err = feed.ParsePartitionKey(f.Key.String()); err != nil {
		return f, fmt.Errorf("the key is invalid: %w", err)
	}
	return f, nil
}

// FaultState is a server's fault and its effect so far.
type FaultState struct {
	// ID identifies the fault.
	ID string
	Fault
	// Hits counts the requests to which the fault was applied.
	Hits int
}

// Faults is the list of faults that a server injects. If several select a request, the
// one that was added first applies. Faults is safe for concurrent use.
type Faults struct {
	operations []string
	// set points to the current list of faults, or is nil. A change replaces the whole
	// list. So a request needs no lock to read it.
	set atomic.Pointer[[]*activeFault]

	mu   sync.Mutex // guards next, and changes of set
	next int
}

// activeFault is a fault of the server, with the number of requests that it selected and
// was applied to.
type activeFault struct {
	id string
	Fault

	mu     sync.Mutex // guards the rest
	chosen int
	hits   int
	draws  *rand.Rand
}

// Add adds a fault and returns its ID, or an error if the fault is invalid or the server
// has 1000 faults.
func (fs *Faults) Add(f Fault) (string, error) {
	s, err := fs.add(f)
	return s.ID, err
}

// add is like Add, but returns the whole new fault with its ID.
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
	if len(all) >= maxFaults {
		return FaultState{}, fmt.Errorf("fault: the server has %d, the largest number; remove some", len(all))
	}
	fs.next++
	a.id = strconv.Itoa(fs.next)
	changed := append(slices.Clip(all), a)
	fs.set.Store(&changed)
	return FaultState{ID: a.id, Fault: f}, nil
}

// List returns the faults in the order in which they were added.
func (fs *Faults) List() []FaultState {
	all := fs.active()
	states := make([]FaultState, len(all))
	for i, a := range all {
		states[i] = a.state()
	}
	return states
}

// Remove removes a fault and reports whether it existed. A request that the fault already
// delays still fails.
func (fs *Faults) Remove(id string) bool {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	all := fs.active()
	kept := slices.DeleteFunc(slices.Clone(all), func(a *activeFault) bool { return a.id == id })
	fs.set.Store(&kept)
	return len(kept) < len(all)
}

// Clear removes all faults.
func (fs *Faults) Clear() {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	fs.set.Store(nil)
}

// active returns the current list of faults. The caller must not change it.
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

// hit counts a request that the fault selects. It reports whether the fault applies to
// it, according to Skip, Count and Probability.
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

// choose returns the fault that applies to a request, or nil if none does. It counts the
// request for each fault that selects it, so it must be called only once for each
// request.
func (fs *Faults) choose(x *request, t *target) *activeFault {
	for _, a := range fs.active() {
		if a.chooses(x, t) && a.hit() {
			return a
		}
	}
	return nil
}

// chooses reports whether the fault's fields select the request.
func (a *activeFault) chooses(x *request, t *target) bool {
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

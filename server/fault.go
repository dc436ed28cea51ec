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

// Fault makes requests fail that would have succeeded, as they fail in a data center: throttled,
// unavailable, slow, or with an answer that never arrives. The zero value of a field that chooses
// requests chooses all of them. The JSON form of a fault is that of the admin API (docs/admin.md).
type Fault struct {
	// Operation is the name of an operation, as in the log: "create document", "read change feed". See
	// [Operations].
	Operation string `json:"operation,omitempty"`
	// Database and Container are names, or rids.
	Database  string `json:"database,omitempty"`
	Container string `json:"container,omitempty"`
	// Partition is the ID of a physical partition. It chooses requests that address any key of it. After
	// a split it chooses none: Range does.
	Partition string `json:"partition,omitempty"`
	// Range is a range of effective partition keys. It chooses requests that address any key of it. A
	// request without a partition key addresses all keys. The bounds are hexadecimal, in either case.
	Range feed.Range `json:"-"`
	// Key is a logical partition key. It chooses requests that name it, with all its components, in their
	// header. It does not choose a request that has the key elsewhere: a create or upsert with the key
	// in the document alone, a request for a range of keys, a query whose condition names it. Numbers
	// are equal by value.
	Key feed.PartitionKey `json:"-"`
	// Match chooses by anything else. It is called last, perhaps concurrently, and may do anything: split
	// a partition, for example. Default: all requests. The admin API does not have it.
	Match func(*http.Request) bool `json:"-"`

	// Skip is how many chosen requests pass before the first fails.
	Skip int `json:"skip,omitempty"`
	// Count is how many fail then. Default: all, until the fault is removed.
	Count int `json:"count,omitempty"`
	// Probability is that of each chosen request to fail, above 0 and at most 1. Default: 1. Seed makes the
	// sequence of draws: the same seed fails the same ones of a sequence of requests.
	Probability float64 `json:"-"`
	Seed        uint64  `json:"seed,omitempty"`

	// Delay is how long the request waits, unless its client leaves: at most one hour. If there is no
	// other effect, the request is carried out afterwards.
	Delay time.Duration `json:"-"`
	// Status is that of the answer, 400 to 599, with SubStatus and Message. The default message says that
	// the failure was injected. RetryAfter goes into x-ms-retry-after-ms.
	Status     int           `json:"status,omitempty"`
	SubStatus  int           `json:"subStatus,omitempty"`
	Message    string        `json:"message,omitempty"`
	RetryAfter time.Duration `json:"-"`
	// Drop closes the connection without an answer, instead of a Status.
	Drop bool `json:"drop,omitempty"`
	// After carries the request out before it fails: the write has happened, and its client does not know.
	After bool `json:"after,omitempty"`
}

const (
	// maxFaults is how many faults a server has at a time.
	maxFaults = 1000
	// maxFaultDelay is the longest Delay.
	maxFaultDelay = time.Hour
)

// validate returns an error if a fault is invalid. operations are the known names.
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
	case f.Delay < 0 || f.Delay > maxFaultDelay:
		return fmt.Errorf("the delay is %s; it is at most %s", f.Delay, maxFaultDelay)
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

// normal returns the fault with its range and its key in the form of requests. It returns an error
// if the key is invalid.
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

// FaultState is a fault of a server, and its effect so far.
type FaultState struct {
	// ID names the fault.
	ID string
	Fault
	// Hits is how many requests have failed by it.
	Hits int
}

// Faults are the faults that a server injects. A request meets the first that chooses it, in the
// order in which they were added. Faults is safe for concurrent use.
type Faults struct {
	operations []string
	// set is never changed in place, so that a request without faults costs one load.
	set atomic.Pointer[[]*activeFault]

	mu   sync.Mutex // guards next, and changes of set
	next int
}

// activeFault is a fault with its counters.
type activeFault struct {
	id string
	Fault

	mu     sync.Mutex // guards the rest
	chosen int
	hits   int
	draws  *rand.Rand
}

// Add adds a fault and returns its ID. It returns an error if the fault is invalid, or if there are 1000
// faults.
func (fs *Faults) Add(f Fault) (string, error) {
	s, err := fs.add(f)
	return s.ID, err
}

// add is Add, and returns the state of the fault.
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

// Remove removes a fault. It returns false if there is none with that ID. A request that waits for
// it continues as if it were still there.
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

// active returns the faults. The caller must not change them.
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

// choose returns the fault of a request, or nil. It is called once for a request.
func (fs *Faults) choose(x *request, t *target) *activeFault {
	for _, a := range fs.active() {
		if a.chooses(x, t) && a.hit() {
			return a
		}
	}
	return nil
}

// chooses reports whether a fault is for a request.
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

package changefeed

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// deliveries records the calls of a handler: the LSNs and the attempt of each.
type deliveries struct {
	mu   sync.Mutex // guards the fields below; held for lookups only
	text []string
	at   []time.Time
	// results has the results of the calls, in order. The calls after them return nil.
	results []error
}

func (d *deliveries) Handle(_ context.Context, b *Batch) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var lsns []int64
	for _, c := range b.Changes {
		lsns = append(lsns, c.LSN)
	}
	d.text = append(d.text, fmt.Sprintf("%v, attempt %d", lsns, b.Attempt))
	d.at = append(d.at, time.Now())
	if len(d.results) == 0 {
		return nil
	}
	err := d.results[0]
	d.results = d.results[1:]
	if err != nil && err.Error() == "panics" {
		panic(err)
	}
	return err
}

func (d *deliveries) got() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.text)
}

func TestOnlyTheChangesThatFailedAreDeliveredAgain(t *testing.T) {
	no := errors.New("no")
	all := "[1 2 3 4 5], attempt 1"
	again := []string{all, "[1 2 3 4 5], attempt 2", "[6], attempt 1"}
	for name, c := range map[string]struct {
		results []error
		want    []string
	}{
		"two":               {[]error{&BatchError{Errors: map[int]error{1: no, 3: no}}}, []string{all, "[2 4], attempt 2", "[6], attempt 1"}},
		"one after another": {[]error{&BatchError{Errors: map[int]error{1: no, 3: no, 4: ErrNotHandled}}, &BatchError{Errors: map[int]error{2: no}}}, []string{all, "[2 4 5], attempt 2", "[5], attempt 3", "[6], attempt 1"}},
		"wrapped":           {[]error{fmt.Errorf("batch: %w", &BatchError{Errors: map[int]error{0: no, 1: nil}})}, []string{all, "[1], attempt 2", "[6], attempt 1"}},
		"none":              {[]error{&BatchError{Errors: map[int]error{2: nil}}}, []string{all, "[6], attempt 1"}},
		"not in the batch":  {[]error{&BatchError{Errors: map[int]error{1: no, 5: no}}}, again},
		"negative":          {[]error{&BatchError{Errors: map[int]error{-1: no}}}, again},
		"plain":             {[]error{no}, again},
		"panic":             {[]error{panicsWith{&BatchError{Errors: map[int]error{1: no}}}}, again},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, leases, h := onePartition(5), newFakeStore(), &deliveries{results: c.results}
				start(t, Config{Source: source, Leases: leases, Handler: h, Start: fromBeginning})
				pause(30 * time.Second)
				source.write("0", 1)
				pause(30 * time.Second)
				if got := h.got(); !slices.Equal(got, c.want) {
					t.Errorf("got %q", got)
				}
				if doc := leases.doc("0"); doc.Continuation != "6" {
					t.Errorf("position %q", doc.Continuation)
				}
			})
		})
	}
}

// panicsWith makes the handler panic with an error that contains a *BatchError.
type panicsWith struct{ *BatchError }

func (panicsWith) Error() string   { return "panics" }
func (p panicsWith) Unwrap() error { return p.BatchError }

// The position cannot lie within a page, so a stop while changes of it wait leaves the whole
// page to the next owner.
func TestPartOfABatchMovesNoPosition(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(5), newFakeStore()
		h := &deliveries{results: slices.Repeat([]error{&BatchError{Errors: map[int]error{0: errors.New("no")}}}, 100)}
		r := start(t, Config{Source: source, Leases: leases, Handler: h, Start: fromBeginning})
		pause(time.Minute)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		if doc := leases.doc("0"); doc.Continuation != "" || doc.Owner != "" {
			t.Errorf("%+v", doc)
		}
	})
}

func TestDelaysOfAFailingHandlerAreConfiguredAndBeginAnewAfterProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		no := errors.New("no")
		said := &notes{}
		h := &deliveries{results: []error{no, no, no, &BatchError{Errors: map[int]error{1: no}}, no}}
		start(t, Config{
			Source: onePartition(2), Leases: newFakeStore(), Handler: h, Start: fromBeginning, Notify: said.add,
			Failure: Failure{Delay: 100 * time.Millisecond, MaxDelay: 300 * time.Millisecond},
		})
		pause(10 * time.Second)
		want := []time.Duration{100, 200, 300, 100, 200}
		if len(h.at) != len(want)+1 {
			t.Fatalf("%d deliveries", len(h.at))
		}
		failed := said.of(Failed)
		for i, delay := range want {
			delay *= time.Millisecond
			if took := h.at[i+1].Sub(h.at[i]); took < delay*8/10 || took > delay*12/10 || took != failed[i].Delay {
				t.Errorf("delay %d is %s, and %s was notified; want about %s", i, took, failed[i].Delay, delay)
			}
			if failed[i].Attempt != i+1 {
				t.Errorf("failure %d has attempt %d", i, failed[i].Attempt)
			}
		}
	})
}

func TestImpossibleDelaysAreRefusedByName(t *testing.T) {
	for field, failure := range map[string]Failure{
		"Failure.Delay":    {Delay: -1},
		"Failure.MaxDelay": {Delay: time.Minute, MaxDelay: time.Second},
	} {
		_, err := New(Config{Processor: "p", Source: onePartition(0), Leases: newFakeStore(), Handler: &deliveries{}, Failure: failure})
		if refused, ok := errors.AsType[*ConfigError](err); !ok || refused.Field != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, err := New(Config{Processor: "p", Source: onePartition(0), Leases: newFakeStore(), Handler: &deliveries{}, Failure: Failure{Delay: time.Hour}}); err != nil {
		t.Errorf("a delay above the default of MaxDelay: %v", err)
	}
}

// resume is what an operator writes in order to resume a lease.
func resume(l *lease.Lease) { *l = protocol.Resumed(*l) }

func TestStoppedLeaseDeliversNothingUntilItIsResumed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, said := onePartition(3), newFakeStore(), &notes{}
		h := &deliveries{results: []error{errors.New("no"), Stop(errors.New("the target has another schema"))}}
		start(t, Config{Source: source, Leases: leases, Handler: h, Start: fromBeginning, Notify: said.add})
		pause(10 * time.Second)
		doc := leases.doc("0")
		stop := protocol.StopOf(doc)
		if !strings.Contains(stop.Reason, "the target has another schema") || doc.Continuation != "" || doc.Owner == "" {
			t.Fatalf("%+v", doc)
		}
		source.write("0", 2)
		pause(time.Hour)
		if got := h.got(); !slices.Equal(got, []string{"[1 2 3], attempt 1", "[1 2 3], attempt 2"}) {
			t.Fatalf("while the lease is stopped: %q", got)
		}
		stopped := said.of(Stopped)
		if len(stopped) != 1 || stopped[0].Attempt != 2 || stopped[0].LeaseToken != "0" || len(said.of(Failed)) != 1 {
			t.Errorf("%+v", said.all)
		}
		leases.edit("0", resume)
		pause(14 * time.Second) // the owner learns of it at its next renewal
		if got := h.got(); !slices.Equal(got[2:], []string{"[1 2 3], attempt 3", "[4 5], attempt 1"}) {
			t.Errorf("after it was resumed: %q", got)
		}
		if len(said.of(Resumed)) != 1 {
			t.Errorf("%+v", said.all)
		}
		pause(15 * time.Second)
		if doc := leases.doc("0"); len(doc.Properties) != 1 || doc.Properties[lease.PropertyStart] == "" || doc.Continuation != "5" {
			t.Errorf("after it was resumed: %+v", doc)
		}
	})
}

func TestStopOutlivesItsHost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(3), newFakeStore()
		r := start(t, Config{Source: source, Leases: leases, Handler: &deliveries{results: []error{Stop(errors.New("no"))}}, Start: fromBeginning})
		pause(5 * time.Second)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		h, said := &deliveries{}, &notes{}
		start(t, Config{Source: source, Leases: leases, Handler: h, Notify: said.add})
		pause(10 * time.Minute)
		if got := h.got(); len(got) > 0 {
			t.Errorf("the next owner delivered %q", got)
		}
		if stopped := said.of(Stopped); len(stopped) != 1 || !strings.Contains(stopped[0].Err.Error(), "no") || len(said.of(Failed)) != 0 {
			t.Errorf("%+v", said.all)
		}
		leases.edit("0", resume)
		pause(14 * time.Second)
		if got := h.got(); !slices.Equal(got, []string{"[1 2 3], attempt 1"}) {
			t.Errorf("after it was resumed: %q", got)
		}
	})
}

// The store applies the write of the stop, but the answer is lost. An operator resumes the
// lease before the owner writes again.
func TestResumeIsKeptWhenTheWriteOfTheStopIsInDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(3), newFakeStore()
		h := &deliveries{results: []error{Stop(errors.New("no"))}}
		lost := false
		leases.after = func(w fakeWrite) error {
			if lost || protocol.StopOf(w.lease).IsZero() {
				return nil
			}
			lost = true
			leases.edit("0", resume)
			return errors.New("503")
		}
		start(t, Config{Source: source, Leases: leases, Handler: h, Start: fromBeginning})
		pause(20 * time.Second)
		if got := h.got(); !lost || !slices.Equal(got, []string{"[1 2 3], attempt 1", "[1 2 3], attempt 2"}) {
			t.Errorf("answer lost: %t; got %q", lost, got)
		}
	})
}

// A lease of another implementation's host loses properties that the host does not know. The
// owner that stopped it knows better.
func TestStopIsWrittenAgainIfItIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(3), newFakeStore()
		h := &deliveries{results: []error{Stop(errors.New("no"))}}
		start(t, Config{Source: source, Leases: leases, Handler: h, Start: fromBeginning})
		pause(5 * time.Second)
		leases.edit("0", func(l *lease.Lease) { l.Properties = nil })
		pause(time.Minute)
		if got := h.got(); len(got) != 1 {
			t.Errorf("got %q", got)
		}
		if protocol.StopOf(leases.doc("0")).IsZero() {
			t.Error("the lease is not stopped any more")
		}
	})
}

func TestChildrenOfAStoppedLeaseAreStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(3), newFakeStore()
		h := &deliveries{results: []error{Stop(errors.New("no"))}}
		start(t, Config{Source: source, Leases: leases, Handler: h, Start: fromBeginning})
		pause(5 * time.Second)
		source.split("0", "1", "2")
		pause(5 * time.Minute)
		if got := h.got(); len(got) != 1 {
			t.Errorf("got %q", got)
		}
		for _, token := range []string{"1", "2"} {
			if doc := leases.doc(token); protocol.StopOf(doc).IsZero() || doc.Owner == "" {
				t.Errorf("%+v", doc)
			}
		}
	})
}

// A handler may return Stop when its host has begun to stop. The release then stores it.
func TestStopWhileTheLeaseIsReleasedIsStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		leases := newFakeStore()
		handler := HandlerFunc(func(context.Context, *Batch) error {
			time.Sleep(5 * time.Second)
			return Stop(errors.New("no"))
		})
		r := start(t, Config{Source: onePartition(3), Leases: leases, Handler: handler, Start: fromBeginning})
		pause(time.Second)
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
		if doc := leases.doc("0"); protocol.StopOf(doc).IsZero() || doc.Owner != "" {
			t.Errorf("%+v", doc)
		}
	})
}

func TestCheckpointThatComesTooLateIsNoFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, said := onePartition(3), newFakeStore(), &notes{}
		handler := HandlerFunc(func(_ context.Context, b *Batch) error {
			time.Sleep(5 * time.Second) // the partition is split meanwhile
			return lease.ErrLost
		})
		start(t, Config{Source: source, Leases: leases, Handler: handler, Start: fromBeginning, Notify: said.add})
		pause(time.Second)
		source.split("0", "1", "2")
		pause(4500 * time.Millisecond)
		if failed := said.of(Failed); len(failed) != 0 {
			t.Errorf("%v", failed)
		}
		pause(time.Hour) // the children have no changes, so there are no calls any more
	})
}

func TestErrorsOfStopAndOfBatches(t *testing.T) {
	no := errors.New("no")
	if Stop(nil) != nil {
		t.Error("Stop(nil) is an error")
	}
	if err := Stop(no); err.Error() != "no" || !errors.Is(err, no) || !stops(fmt.Errorf("x: %w", err)) || stops(no) {
		t.Errorf("%v", err)
	}
	for want, failed := range map[string]map[int]error{
		"changes not handled: 1":                            {1: ErrNotHandled},
		"no change of the batch failed":                     {1: nil},
		"the change at index 2: no":                         {1: nil, 2: no, 3: ErrNotHandled},
		"3 changes failed, first the one at index 0: first": {5: no, 0: errors.New("first"), 7: no},
	} {
		if err := (&BatchError{Errors: failed}); err.Error() != want || errors.Is(err, no) != slices.Contains(slices.Collect(maps.Values(failed)), no) {
			t.Errorf("%q", err.Error())
		}
	}
	if !stops(&BatchError{Errors: map[int]error{0: no, 4: Stop(no)}}) {
		t.Error("a BatchError with a Stop does not stop")
	}
}

// The error of a handler may be made of several, or be a nil pointer.
func TestBatchErrorCountsOnlyIfItIsTheWholeError(t *testing.T) {
	no := errors.New("no")
	one := func(i int) *BatchError { return &BatchError{Errors: map[int]error{i: no}} }
	all, again, next := "[1 2 3 4 5], attempt 1", "[1 2 3 4 5], attempt 2", "[6], attempt 1"
	for name, c := range map[string]struct {
		result error
		want   []string
	}{
		"a nil pointer":                {(*BatchError)(nil), []string{all, next}},
		"beside another error":         {errors.Join(one(1), no), []string{all, again, next}},
		"empty, beside another error":  {errors.Join(&BatchError{}, no), []string{all, again, next}},
		"two":                          {errors.Join(one(0), one(2)), []string{all, again, next}},
		"empty, in another error":      {fmt.Errorf("flush: %w", &BatchError{}), []string{all, again, next}},
		"in two others":                {fmt.Errorf("a: %w", fmt.Errorf("b: %w", one(4))), []string{all, "[5], attempt 2", next}},
		"of Each, for a smaller batch": {failedAt(2, 0, no), []string{all, again, next}},
		"of Each":                      {failedAt(5, 4, no), []string{all, "[5], attempt 2", next}},
		"a method panics":              {hostile{}, []string{all, again, next}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source, h := onePartition(5), &deliveries{results: []error{c.result}}
				start(t, Config{Source: source, Leases: newFakeStore(), Handler: h, Start: fromBeginning})
				pause(30 * time.Second)
				source.write("0", 1)
				pause(30 * time.Second)
				if got := h.got(); !slices.Equal(got, c.want) {
					t.Errorf("got %q", got)
				}
			})
		})
	}
}

// hostile is an error with a method that panics.
type hostile struct{}

func (hostile) Error() string { return "hostile" }
func (hostile) Unwrap() error { panic("hostile") }

// An operator resumes a stopped lease, and its partition is split before the owner has
// written the lease again.
func TestResumeIsKeptByASplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases := onePartition(3), newFakeStore()
		h := &deliveries{results: []error{Stop(errors.New("no"))}}
		start(t, Config{Source: source, Leases: leases, Handler: h, Start: fromBeginning})
		pause(5 * time.Second)
		leases.edit("0", resume)
		source.split("0", "1", "2")
		pause(time.Minute)
		for _, token := range []string{"1", "2"} {
			if doc := leases.doc(token); !protocol.StopOf(doc).IsZero() || doc.Owner == "" {
				t.Errorf("%+v", doc)
			}
		}
	})
}

func TestShortMaxDelayAloneIsPossible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := &deliveries{results: []error{errors.New("no"), errors.New("no")}}
		start(t, Config{Source: onePartition(1), Leases: newFakeStore(), Handler: h, Start: fromBeginning, Failure: Failure{MaxDelay: 500 * time.Millisecond}})
		pause(1500 * time.Millisecond)
		if got := h.got(); len(got) != 3 {
			t.Errorf("got %q", got)
		}
	})
}

package estimator_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
)

// letters returns a container with letters of a processor: two of the key with the hash 10, of
// which one is parked, two dead ones with the hash 30, one that is parked with the hash 70, and
// one without a key. Another processor has one, too.
func (w *world) letters() *memory.Letters {
	w.t.Helper()
	identity, err := w.source.Identity(w.ctx)
	if err != nil {
		w.t.Fatal(err)
	}
	id := feed.ContainerID{RID: identity.ContainerRID}
	c := memory.NewLetters()
	for i, l := range []struct {
		processor, hash string
		state           letters.State
	}{
		{"projector", "10", letters.Dead},
		{"projector", "10", letters.Parked},
		{"projector", "10", letters.Parked},
		{"projector", "30", letters.Dead},
		{"projector", "30", letters.Redriving},
		{"projector", "70", letters.Parked},
		{"projector", "", letters.Dead},
		{"printer", "10", letters.Parked},
	} {
		s, err := c.Open(w.ctx, letters.Key{Processor: l.processor, Source: id})
		if err != nil {
			w.t.Fatal(err)
		}
		put := letters.Letter{Hash: l.hash, ItemID: fmt.Sprint(i), LSN: int64(i + 1), Operation: feed.Delete, State: l.state}
		if l.hash != "" {
			put.PartitionKey = feed.PartitionKey{l.hash}
		}
		if err := s.Put(w.ctx, put); err != nil {
			w.t.Fatal(err)
		}
	}
	return c
}

// counts returns the letters and parked keys of each lease and in total.
func counts(r estimator.Report) string {
	var b strings.Builder
	for _, l := range r.Lags {
		fmt.Fprintf(&b, "%s %d %d, ", l.LeaseToken, l.Letters, l.ParkedKeys)
	}
	fmt.Fprintf(&b, "total %d %d", r.Total.Letters, r.Total.ParkedKeys)
	return b.String()
}

func TestLettersAreCountedByLease(t *testing.T) {
	w := newWorld(t, 1, false)
	report := func(c letters.Container) estimator.Report {
		t.Helper()
		r, err := w.estimator(estimator.Config{Letters: c}).Report(w.ctx)
		if err != nil || r.LettersErr != nil {
			t.Fatal(err, r.LettersErr)
		}
		return r
	}
	w.create(lease.Lease{Token: "-20", Range: feed.Range{Max: "20"}}, lease.Lease{Token: "20-60", Range: feed.Range{Min: "20", Max: "60"}})
	if got, want := counts(report(w.letters())), "-20 4 1, 20-60 2 0, total 7 2"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
	if got, want := counts(report(nil)), "-20 -1 -1, 20-60 -1 -1, total -1 -1"; got != want {
		t.Errorf("without letters: %s; want %s", got, want)
	}
	for l, err := range w.estimator(estimator.Config{Letters: w.letters()}).Current(w.ctx) {
		if err != nil || l.Letters != estimator.Unknown || l.ParkedKeys != estimator.Unknown {
			t.Errorf("one by one: %v: %+v", err, l)
		}
	}
	// While a lease is being replaced, it has its children's letters.
	w.create(lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full()})
	r := report(w.letters())
	if got, want := counts(r), "-20 0 0, 0 7 2, 20-60 0 0, total 7 2"; got != want {
		t.Errorf("in a split: %s; want %s", got, want)
	}
	if total := estimator.Sum(r.Lags); total.Letters != 7 || total.ParkedKeys != 2 {
		t.Errorf("the sum is %+v", total)
	}
}

// failingLetters is a letters container that cannot be read or opened, as long as err is set.
type failingLetters struct {
	letters.Container
	open, read error
	charged    float64
}

func (f *failingLetters) Open(ctx context.Context, k letters.Key) (letters.Store, error) {
	if f.open != nil {
		return nil, f.open
	}
	s, err := f.Container.Open(ctx, k)
	return failingLetterStore{s, f}, err
}

type failingLetterStore struct {
	letters.Store
	f *failingLetters
}

func (s failingLetterStore) Read(ctx context.Context, q letters.Query) iter.Seq2[letters.Letter, error] {
	if s.f.read != nil {
		return func(yield func(letters.Letter, error) bool) { yield(letters.Letter{}, s.f.read) }
	}
	s.f.charged += 5
	return s.Store.Read(ctx, q)
}

func (s failingLetterStore) Charged() float64 { return s.f.charged }

// What happens to the letters hides no lag.
func TestLettersThatCannotBeReadHideNoLag(t *testing.T) {
	w := newWorld(t, 1, false)
	w.write(3)
	w.create(lease.Lease{Token: "0", PartitionID: "0", Range: feed.Full(), Continuation: `"1"`})
	c := &failingLetters{Container: w.letters(), open: errors.New("it is down")}
	reader := metric.NewManualReader()
	var last estimator.Report
	e := w.estimator(estimator.Config{Letters: c, Metrics: metric.NewMeterProvider(metric.WithReader(reader)), Interval: time.Second, Handler: func(_ context.Context, r estimator.Report) error {
		last = r
		return nil
	}})
	r, err := e.Report(w.ctx)
	if err != nil || r.LettersErr == nil || !strings.Contains(r.LettersErr.Error(), "it is down") || counts(r) != "0 -1 -1, total -1 -1" || r.Total.LSNs != 2 {
		t.Errorf("%v: %+v", err, r)
	}
	c.open = &letters.ContainerError{Found: "it is partitioned by /id", Remedy: "use another one"}
	if r, err = e.Report(w.ctx); err != nil || r.LettersErr == nil || !strings.Contains(r.LettersErr.Error(), "Config.Letters: it is partitioned by /id") {
		t.Errorf("%v: %+v", err, r)
	}
	c.open, c.read = nil, errors.New("it is down, too")
	if r, err = e.Report(w.ctx); err != nil || r.LettersErr == nil || !strings.HasSuffix(r.LettersErr.Error(), "it is down, too") || counts(r) != "0 -1 -1, total -1 -1" {
		t.Errorf("%v: %+v", err, r)
	}
	before := r.Total.Charge
	c.read = nil
	if r, err = e.Report(w.ctx); err != nil || r.LettersErr != nil || r.Total.Letters != 7 || r.Total.Charge != before+5 {
		t.Errorf("%v: %+v; it cost %v before", err, r, before)
	}
	ctx, cancel := context.WithCancel(w.ctx)
	ran := make(chan error, 1)
	go func() { ran <- e.Run(ctx) }()
	for deadline := time.Now().Add(time.Minute); gauges(t, reader)["changefeed.estimator.letters"] != 7; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("the gauges are %v", gauges(t, reader))
		}
	}
	if got := gauges(t, reader); got["changefeed.estimator.parked"] != 2 {
		t.Errorf("the gauges are %v", got)
	}
	cancel()
	if err := <-ran; err != nil || last.LettersErr != nil {
		t.Errorf("%v: %+v", err, last)
	}
}

package engine

import (
	"fmt"
	"math"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// A replace is charged by the terms that go and come. A replaced scalar is one of each, and an
// added one has as many terms as in a create.
func TestTermsThatAReplaceChanges(t *testing.T) {
	for _, x := range []struct {
		before, after string
		want          float64
	}{
		{`{"a":1,"b":2}`, `{"a":1,"b":2`, 0},
		{`{"a":1,"b":2}`, `{"b":2,"a":1}`, 0},
		{`{"a":1}`, `{"a":2}`, 2},
		{`{"a":1}`, `{"a":"1"}`, 2},
		{`{"a":1}`, `{"b":1}`, 4},
		{`{"a":1}`, `{"a":1,"b":{"c":1}}`, 3.5},
		{`{"a":{"b":1}}`, `{"a":"b"}`, 5.5},
		{`{"a":{}}`, `{"a":[]}`, 2},
		{`{"a":[1,2,3]}`, `{"a":[3,1,2]}`, 0},
		{`{"a":[1,2,3]}`, `{"a":[1,2]}`, 2},
		{`{"a":[{"b":1},{"b":2}]}`, `{"a":[{"b":1},{"b":3}]}`, 2},
		{`{"a":{"b":1},"c":{"b":2}}`, `{"a":{"b":2},"c":{"b":1}}`, 4},
		{`{"a":"x,]}\"{:"}`, `{"a":"x,]}\"{:","é":null}`, 2},
		{`{"a":"\\\\","b":1}`, `{"a":"\\\\","b":2}`, 2},
		{`{"a":"\\\"","b":1}`, `{"a":"\\\"","b":2}`, 2},
		{`{"":1}`, `{"":[1]}`, 5.5},
	} {
		for _, swap := range []bool{false, true} {
			before, after := []byte(x.before), []byte(x.after)
			if swap {
				before, after = after, before
			}
			if got := new(comparison).changed(before, after); got != x.want {
				t.Errorf("%s to %s changes %v terms, want %v", before, after, got, x.want)
			}
		}
		if got, want := new(comparison).changed([]byte(`{`), []byte(x.after)), indexTerms([]byte(x.after)); got != want {
			t.Errorf("%s has %v terms, and a create counts %v", x.after, got, want)
		}
	}
}

// The old version of an item may be that of an earlier group, of the same group, or of the same
// batch. Nothing is compared unless the caller asks for it.
func TestTheExactChargeOfAReplaceComparesWithTheVersionBefore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
		ctx, pk := t.Context(), feed.PartitionKey{"p"}
		exact := storetype.WriteOptions{ExactCharge: true}
		charged := func(what string, r storetype.Result, err error, terms float64) {
			t.Helper()
			if want := replaceCharge(terms, 0); err != nil || math.Abs(r.Charge-want) > 1e-9 {
				t.Errorf("%s is charged %.4f RU (%v), want %.4f", what, r.Charge, err, want)
			}
		}
		body := func(n int, s string) []byte { return fmt.Appendf(nil, `{"id":"a","pk":"p","n":%d,"s":"%s"}`, n, s) }
		r, err := c.Upsert(ctx, nil, body(1, "x"), exact)
		if want := createCharge(body(1, "x"), 0, 0); err != nil || r.Charge != want {
			t.Errorf("an upsert of a new item is charged %v RU (%v), want %v", r.Charge, err, want)
		}
		r, err = c.Upsert(ctx, nil, body(1, "x"), exact)
		charged("the same content", r, err, 0)
		r, err = c.Replace(ctx, pk, "a", body(2, "y"), exact)
		charged("two other scalars", r, err, 4)
		r, err = c.Replace(ctx, pk, "a", body(2, "y"), storetype.WriteOptions{})
		charged("a write that asks for nothing", r, err, assumedTerms)
		r, err = c.Change(ctx, pk, "a", func([]byte) ([]byte, error) { return []byte(`{"id":"a","pk":"p","n":2}`), nil }, exact)
		charged("a change that removes a scalar", r, err, 2)

		results, err := c.Batch(ctx, pk, []storetype.Operation{
			{Kind: storetype.OpUpsert, Body: body(2, "z"), ExactCharge: true},
			{Kind: storetype.OpReplace, ID: "a", Body: body(3, "zz"), ExactCharge: true},
			{Kind: storetype.OpUpsert, Body: body(3, "zz"), ExactCharge: true},
			{Kind: storetype.OpUpsert, Body: body(3, "zz")},
		})
		for i, terms := range []float64{2, 4, 0, assumedTerms} {
			charged(fmt.Sprintf("operation %d of a batch", i), results[i], err, terms)
		}
		_, err = c.Batch(ctx, pk, []storetype.Operation{{Kind: storetype.OpUpsert, Body: body(4, "zz"), ExactCharge: true}, {Kind: storetype.OpDelete, ID: "none"}})
		if want := replaceCharge(2, 0); err == nil || math.Abs(err.(*storetype.BatchError).Charges[0]-want) > 1e-9 { //nolint:errorlint,forcetypeassert // a failure is a failure
			t.Errorf("an operation of a failed batch: %v, want %v RU", err, want)
		}

		large := strings.Repeat("x", maxCompared)
		r, err = c.Upsert(ctx, nil, body(3, large), exact)
		if want := assumedTerms; err != nil || math.Abs(r.Charge-replaceCharge(float64(want), 0)*readCharge(len(r.Body)+10)) > 0.01 {
			t.Errorf("a large item is charged %v RU (%v)", r.Charge, err)
		}
	})
}

// Writers of one item get the charge of their own change, however the sequencer groups them,
// and keep no view: the end of the test checks that the store closes.
func TestExactChargesOfWritersOfTheSameItem(t *testing.T) {
	c := newContainer(t, openPebble(t, Options{}), storetype.ContainerProperties{})
	ctx, pk := t.Context(), feed.PartitionKey{"p"}
	if _, err := c.Create(ctx, nil, []byte(`{"id":"a","pk":"p","n":0,"m":0}`), storetype.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for w := range 16 {
		writers.Go(func() {
			for i := range 50 {
				r, err := c.Change(ctx, pk, "a", func([]byte) ([]byte, error) {
					return fmt.Appendf(nil, `{"id":"a","pk":"p","n":"%d of %d","m":"%[1]d of %[2]d"}`, i, w), nil
				}, storetype.WriteOptions{ExactCharge: true, NoBody: true})
				if want := replaceCharge(4, 0); err != nil || math.Abs(r.Charge-want) > 1e-9 {
					t.Errorf("charged %v RU (%v), want %v", r.Charge, err, want)
					return
				}
			}
		})
	}
	writers.Wait()
}

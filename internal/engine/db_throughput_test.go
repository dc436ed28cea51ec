package engine

import (
	"errors"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// The charge that an operation returns must follow the formula in the comment of Result.
// The operation must take exactly that charge from the container's throughput.
func TestChargesFollowTheFormulaAndConsumeThroughput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContainer(t, openPebble(t, Options{EnforceThroughput: true}), storetype.ContainerProperties{Throughput: 100_000})
		ctx, pk := t.Context(), feed.PartitionKey{"p"}
		left := c.bucket.tokens // no time passes, so the bucket is not refilled
		spent := func(what string, charge, want float64) {
			t.Helper()
			took := left - c.bucket.tokens
			left = c.bucket.tokens
			if math.Abs(charge-want) > 0.006 || math.Abs(took-charge) > 1e-6 {
				t.Errorf("%s is charged %.2f RU and consumes %.2f, want %.2f", what, charge, took, want)
			}
		}
		write := func(body string) storetype.Result {
			t.Helper()
			r, err := c.Upsert(ctx, nil, []byte(body), storetype.WriteOptions{})
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		large := `{"id":"a","pk":"p","x":"` + strings.Repeat("x", 20<<10) + `"}`
		r := write(large)
		page := feed.Request{From: feed.Beginning()}
		p, err := c.db.Source(c).Read(ctx, page)
		if err != nil {
			t.Fatal(err)
		}
		reading := 1 + (float64(p.Bytes)/1024-1)/11
		spent("a large create, and a page of it", r.Charge+p.Charge, (1+132.0/21)*reading)
		spent("a small version in its place", write(`{"id":"a","pk":"p"}`).Charge, 224.0/21*reading)
		spent("a small version of a small one", write(`{"id":"a","pk":"p"}`).Charge, 224.0/21)
		if r, err = c.Read(ctx, pk, "a", storetype.ReadOptions{}); err != nil {
			t.Fatal(err)
		}
		spent("a read", r.Charge, 1)
		items, err := c.Items(ctx, ItemsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		spent("a page of items", items.Charge, 1)
		results, err := c.Batch(ctx, pk, []storetype.Operation{{Kind: storetype.OpRead, ID: "a"}, {Kind: storetype.OpUpsert, Body: []byte(large)}, {Kind: storetype.OpDelete, ID: "a"}})
		if err != nil {
			t.Fatal(err)
		}
		spent("a batch", results[0].Charge+results[1].Charge+results[2].Charge, 1+(224.0+140.0)/21*reading)
	})
}

// Containers without throughput of their own share that of their database. It is kept over a
// restart, and replaced by ReplaceDatabase.
func TestContainersShareTheThroughputOfTheirDatabase(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		ctx := t.Context()
		db, err := Open(dir, Options{EnforceThroughput: true})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "db", Throughput: -1}); kindOf(err) != storetype.BadProperties {
			t.Errorf("a negative throughput: %v", err)
		}
		if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "db", Throughput: 100}); err != nil {
			t.Fatal(err)
		}
		a, b := newContainer(t, db, storetype.ContainerProperties{ID: "a"}), newContainer(t, db, storetype.ContainerProperties{ID: "b"})
		own := newContainer(t, db, storetype.ContainerProperties{ID: "own", Throughput: 100})
		use := func(c *Container) error {
			var err error
			for range 20 { // of about 10 RU
				if _, err = c.Upsert(ctx, nil, []byte(`{"id":"1","pk":"p"}`), storetype.WriteOptions{}); err != nil {
					break
				}
			}
			return err
		}
		throttled := func(c *Container, want bool) {
			t.Helper()
			_, err := c.Read(ctx, feed.PartitionKey{"p"}, "1", storetype.ReadOptions{})
			if got := errors.As(err, new(*feed.ThrottledError)); got != want {
				t.Errorf("a read of %s: %v; throttled: %t, want %t", c.name, err, got, want)
			}
		}
		if err := use(a); !errors.As(err, new(*feed.ThrottledError)) {
			t.Fatalf("20 writes: %v", err)
		}
		throttled(a, true)
		throttled(b, true)
		throttled(own, false)
		time.Sleep(time.Second)
		throttled(b, false)

		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		if db, err = Open(dir, Options{EnforceThroughput: true}); err != nil {
			t.Fatal(err)
		}
		if a, err = db.Container(ctx, "db", "a"); err != nil {
			t.Fatal(err)
		}
		if b, err = db.Container(ctx, "db", "b"); err != nil {
			t.Fatal(err)
		}
		if err := use(a); err == nil {
			t.Error("the throughput of a database is lost at a restart")
		}
		throttled(b, true)
		d, err := db.Database(ctx, "db")
		if err != nil || d.Throughput != 100 {
			t.Fatalf("%+v, %v", d, err)
		}
		d.Throughput = 0
		if _, err := db.ReplaceDatabase(ctx, d); err != nil {
			t.Fatal(err)
		}
		throttled(b, false)
		if err := use(b); err != nil {
			t.Errorf("without a throughput: %v", err)
		}
		closeChecked(t, db)
	})
}

// A read whose charge is known only at its end is refused if others have used up the
// throughput meanwhile, and then costs a hundredth. Its own cost does not refuse it.
func TestAReadIsRefusedAtItsEndIfTheThroughputIsUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newContainer(t, openPebble(t, Options{EnforceThroughput: true}), storetype.ContainerProperties{Throughput: 100})
		c.spend(30)
		if err := c.Settle(30, 250); err != nil {
			t.Errorf("a read of more than the throughput: %v", err)
		}
		c.spend(30)
		err := c.Settle(30, 50)
		if !errors.As(err, new(*feed.ThrottledError)) || math.Abs(c.bucket.tokens+150.5) > 1e-9 {
			t.Errorf("a read at the same time: %v, and %.2f RU are left; want -150.50", err, c.bucket.tokens)
		}
	})
}

package engine_test

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/internal/engine"
)

// Power loss: at random points, in the middle of any operation on the files,
// everything that was not synced is dropped. Properties:
//
//   - Every acknowledged write, split and merge is still there.
//   - Nothing that a reader was shown is gone or has another LSN.
//   - A transaction is there whole or not at all (versions of a batch move together).
//   - The store opens, Check finds nothing, and it can be written on and crash again, also
//     while it recovers.

var crashPoints = flag.Int("crash.points", 0, "how many power losses the crash test simulates (0: 1000, 100 with -short, 40 with -race)")

// crashLife is after how many crashes a store is given up for a new one, so
// that it stays small.
const crashLife = 10

func TestPowerLossKeepsEveryAcknowledgement(t *testing.T) {
	points := *crashPoints
	if points == 0 {
		points = 1000
		switch {
		case engine.RaceDetector:
			points = 40
		case testing.Short():
			points = 100
		}
	}
	const lanes = 4
	var crashes, recovering atomic.Int64
	t.Run("lanes", func(t *testing.T) {
		for lane := range lanes {
			t.Run(fmt.Sprint(lane), func(t *testing.T) {
				t.Parallel()
				for life := 0; life*crashLife < points/lanes; life++ {
					seed := uint64(lane*1_000_000 + life*1000)
					c := &crasher{t: t, rng: rand.New(rand.NewPCG(seed, 3)), fs: vfs.NewCrashableMem(), known: newKnown(), versions: map[crashItem]int{}}
					for n := range crashLife {
						if c.round(seed + uint64(n)) {
							recovering.Add(1)
						}
						crashes.Add(1)
					}
				}
			})
		}
	})
	t.Logf("%d crashes, %d of them before the store was open again", crashes.Load(), recovering.Load())
}

// crasher is one store through many crashes.
type crasher struct {
	t   *testing.T
	rng *rand.Rand
	fs  *vfs.MemFS
	// versions are what the items were found at after the last crash.
	versions map[crashItem]int

	mu    sync.Mutex // guards known
	known *known

	// countdown is how many operations on the files there are before the crash.
	countdown atomic.Int64
	crashed   chan struct{}
	// after is what is left: files, and what was known of them.
	after      *vfs.MemFS
	afterKnown *known
}

func (c *crasher) ack(i crashItem, version int) {
	c.mu.Lock()
	c.known.acked[i] = version
	c.mu.Unlock()
}

func (c *crasher) deliver(i crashItem, d delivery) {
	c.mu.Lock()
	c.known.deliver(i, d)
	c.mu.Unlock()
}

func (c *crasher) try(writer int, versions map[crashItem]int) {
	c.mu.Lock()
	c.known.tried[writer] = versions
	c.mu.Unlock()
}

func (c *crasher) divide(container int, partition string) {
	c.mu.Lock()
	c.known.partitions[fmt.Sprintf("%d/%s", container, partition)] = true
	c.mu.Unlock()
}

// before is called ahead of every operation on the files. What was known before
// the files are taken must be in them.
func (c *crasher) before(op fileOp) {
	if op.kind == "sync" {
		// Readers get a chance to see what isn't durable yet, if they are let.
		for range 20 {
			runtime.Gosched()
		}
	}
	if c.countdown.Add(-1) != 0 {
		return
	}
	c.mu.Lock()
	c.afterKnown = c.known.clone()
	c.mu.Unlock()
	cfg := vfs.CrashCloneCfg{}
	if c.rng.IntN(3) == 0 {
		// Some of what wasn't synced is there all the same, torn.
		cfg.UnsyncedDataPercent, cfg.RNG = c.rng.IntN(100), c.rng
	}
	c.after = c.fs.CrashClone(cfg)
	close(c.crashed)
}

// round opens the store, runs the load until the crash, and verifies what is
// left. It reports whether the crash came before the load.
func (c *crasher) round(seed uint64) (early bool) {
	t := c.t
	t.Helper()
	c.crashed = make(chan struct{})
	opening := c.rng.IntN(5) == 0
	operations := 1 + c.rng.Int64N(300)
	if opening {
		c.countdown.Store(1 + c.rng.Int64N(20))
	}
	o := engine.Options{FS: &hookFS{FS: c.fs, before: c.before}, Memory: 4 << 20, PurgeInterval: 20 * time.Millisecond}
	db, err := engine.Open("db", o)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	load := &crashLoad{db: db, w: c, versions: c.versions}
	if err := load.setUp(t.Context()); err != nil {
		t.Fatal(err)
	}
	select {
	case <-c.crashed:
		early = true
	default:
		if !opening {
			c.countdown.Store(operations)
		}
		done := make(chan error, 1)
		go func() { done <- load.run(t.Context(), seed) }()
		select {
		case <-c.crashed:
			load.stop.Store(true)
			err = <-done
		case err = <-done:
		}
		if err != nil {
			t.Fatalf("the load failed: %v", err)
		}
	}
	if err := db.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	c.recover(seed)
	return early
}

// recover opens what the crash has left and verifies it.
func (c *crasher) recover(seed uint64) {
	t := c.t
	t.Helper()
	c.fs, c.known = c.after, c.afterKnown
	db, err := engine.Open("db", engine.Options{FS: c.fs, Memory: 4 << 20, PurgeInterval: -1})
	if err != nil {
		t.Fatalf("seed %d: open after the crash: %v", seed, err)
	}
	c.versions = verifyCrash(t, db, c.known)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	// From here on what is there is known to be durable.
	for i, v := range c.versions {
		c.known.acked[i] = v
	}
	clear(c.known.tried)
}

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

// These tests simulate power losses. At a random point, in the middle of any operation on
// the files, all data that was not synced is dropped. The tests check:
//
//   - Every acknowledged write, split and merge is present.
//   - No change that was delivered to a reader is lost or has another LSN.
//   - A transaction is present whole or not at all (versions of a batch move together).
//   - The store opens and Check finds nothing.
//   - The store can be written again and crash again, also during its recovery.

var crashPoints = flag.Int("crash.points", 0, "number of power losses that the crash test simulates (0: 1000, 100 with -short, 40 with -race)")

// crashLife is the number of crashes after which a store is replaced by a new one, so
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

// crasher takes one store through many crashes.
type crasher struct {
	t   *testing.T
	rng *rand.Rand
	fs  *vfs.MemFS
	// versions holds the version of each item after the last crash.
	versions map[crashItem]int

	mu    sync.Mutex // guards known
	known *known

	// countdown is the number of operations on the files before the crash.
	countdown atomic.Int64
	crashed   chan struct{}
	// after holds the files after the crash. afterKnown is the state of known at the
	// crash.
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

// before is called before every operation on the files. The state known before the files
// are copied must be in the copy.
func (c *crasher) before(op fileOp) {
	if op.kind == "sync" {
		// Give readers a chance to see data that is not durable yet, if the store allows
		// it.
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
		// Some of the unsynced data survives, perhaps only a part of a write.
		cfg.UnsyncedDataPercent, cfg.RNG = c.rng.IntN(100), c.rng
	}
	c.after = c.fs.CrashClone(cfg)
	close(c.crashed)
}

// round opens the store, runs the load until the crash, and verifies the remaining files.
// It reports whether the crash came before the load.
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

// recover opens the files that remain after the crash and verifies them.
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
	// The recovered versions are durable from here on.
	for i, v := range c.versions {
		c.known.acked[i] = v
	}
	clear(c.known.tried)
}

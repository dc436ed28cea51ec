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
	"github.com/changefeed-go/changefeed/internal/race"
)

// These tests simulate power losses. At a random point, in the middle of any operation on
// the files, all data that was not synced is dropped. The tests check:
//
//   - Every acknowledged write, split and merge is present.
//   - No change that was delivered to a reader is lost or has another LSN.
//   - A transaction is present whole or not at all (versions of a batch move together).
//   - The store opens and Check finds nothing.
//   - The store can be written again and crash again, also during its recovery.

var crashPoints = flag.Int("crash.points", 0, "number of power losses that the crash test simulates; if 0, it is 400, or 100 with -short; with -race, 0 skips the test")

// crashLife is the number of crashes that one store goes through. A new store then
// replaces it, because a store grows with every load.
const crashLife = 10

func TestPowerLossKeepsEveryAcknowledgement(t *testing.T) {
	points := *crashPoints
	if points == 0 {
		if race.Enabled {
			t.Skip("checks files after a power loss, in which the race detector finds nothing that it doesn't find in other tests")
		}
		points = 400
		if testing.Short() {
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

// crasher runs the load of crash tests on one store, and simulates a crash in each round.
type crasher struct {
	t   *testing.T
	rng *rand.Rand
	fs  *vfs.MemFS
	// versions holds the version of each item that the store had after the last crash.
	versions map[crashItem]int

	mu    sync.Mutex // guards known
	known *known

	// countdown is the number of operations on files that remain before the crash.
	countdown atomic.Int64
	crashed   chan struct{}
	// after holds the files as the crash left them. afterKnown is a copy of known, made
	// at the moment of the crash.
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

// before is the hook that runs before every operation on files. When countdown reaches 0,
// it simulates the crash. It copies known first and the files after it. So the copied
// files must contain everything that the copy of known records.
func (c *crasher) before(op fileOp) {
	if op.kind == "sync" {
		// The store must not show data to readers before the sync. If it did, the readers
		// would receive the data now, and verification would fail.
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
		// In every third crash, a random part of the data that was not synced survives. A
		// write may survive in part.
		cfg.UnsyncedDataPercent, cfg.RNG = c.rng.IntN(100), c.rng
	}
	c.after = c.fs.CrashClone(cfg)
	close(c.crashed)
}

// round opens the store, runs the load until the crash, and verifies the files that
// remain. early reports whether the crash came before the load, while the store was
// opened.
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

// recover opens the store from the files that the crash left, and verifies it.
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
	// The store has recovered these versions, so later crashes must not lose them.
	for i, v := range c.versions {
		c.known.acked[i] = v
	}
	clear(c.known.tried)
}

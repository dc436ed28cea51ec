package changefeed

import (
	"math"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"testing"
	"testing/synctest"
	"time"
)

// withCollector sets GOGC and GOMEMLIMIT for a test.
func withCollector(t *testing.T, percent int, limit int64) {
	t.Helper()
	oldPercent, oldLimit := debug.SetGCPercent(percent), debug.SetMemoryLimit(limit)
	t.Cleanup(func() {
		debug.SetGCPercent(oldPercent)
		debug.SetMemoryLimit(oldLimit)
	})
}

// held is how many bytes the reserve has now.
func (r *reserve) held() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.block == nil {
		return 0
	}
	return r.bytes
}

func TestAReserveIsHeldByAProcessorThatHasReadMuchAndOnlyWhileItRuns(t *testing.T) {
	for _, c := range []struct {
		name          string
		size, changes int
		percent       int
		want          int
	}{
		{"much", 1000, 1000, 100, 1000},
		{"little", 1 << 20, 1000, 100, 0},
		{"switched off", -1, 1000, 100, 0},
		{"GOGC", 1000, 1000, 400, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				source := onePartition(c.changes)
				withCollector(t, c.percent, math.MaxInt64)
				r := start(t, Config{Source: source, Leases: newFakeStore(), Handler: &collector{}, HeapReserve: c.size, Start: fromBeginning, MaxItems: 1000})
				pause(time.Minute)
				if got := reserves.held(); got != c.want {
					t.Errorf("%d bytes are held while the processor runs, want %d", got, c.want)
				}
				if err := r.end(); err != nil {
					t.Error(err)
				}
				if got := reserves.held(); got != 0 {
					t.Errorf("%d bytes are held when it has ended", got)
				}
			})
		})
	}
}

// A limit counts the reserve as if it were used, and would be reached by it.
func TestNoReserveIsMoreThanAnEighthOfTheMemoryLimit(t *testing.T) {
	withCollector(t, 100, 1<<30)
	if most := 128 << 20; !affordable(most) || affordable(most+1) {
		t.Errorf("%d bytes: %t, one more: %t", most, affordable(most), affordable(most+1))
	}
}

// A page that is still on its way when the run ends would hold the reserve for good.
func TestNoReserveIsTakenAfterTheRun(t *testing.T) {
	withCollector(t, 100, math.MaxInt64)
	over := turnover{size: 10}
	over.end()
	over.read(1000)
	if got := reserves.held(); got != 0 {
		t.Errorf("%d bytes", got)
	}
}

func TestProcessorsOfAProgramShareTheLargestReserve(t *testing.T) {
	var r reserve
	small, large := r.hold(10), r.hold(100)
	again := r.hold(10)
	if n := r.held(); n != 100 {
		t.Errorf("%d bytes", n)
	}
	large()
	small()
	if r.held() == 0 {
		t.Error("given up while one holds it")
	}
	again()
	if n := r.held(); n != 0 || len(r.sizes) != 0 {
		t.Errorf("%d bytes, for %v", n, r.sizes)
	}
}

// New memory in the place of the old would have to be cleared.
func TestAReserveIsHeldAgainIfTheCollectorHasntTakenIt(t *testing.T) {
	withCollector(t, -1, math.MaxInt64) // off
	var r reserve
	release := r.hold(1 << 20)
	first := r.block
	release()
	again := r.hold(1 << 10)
	if r.block != first || r.held() != 1<<20 {
		t.Error("another one was made")
	}
	again()
	runtime.GC()
	if r.last.Value() != nil {
		t.Error("it stays when nobody holds it")
	}
}

// The reserve would be of no use if the collector didn't count it.
func TestTheCollectorWaitsForTheReserve(t *testing.T) {
	withCollector(t, 100, math.MaxInt64)
	goal := func() uint64 {
		runtime.GC()
		s := []runtimemetrics.Sample{{Name: "/gc/heap/goal:bytes"}}
		runtimemetrics.Read(s)
		return s[0].Value.Uint64()
	}
	const size = 256 << 20
	before := goal()
	release := reserves.hold(size)
	with := goal()
	release()
	if after := goal(); with < before+size || after > with-size {
		t.Errorf("the heap may grow to %d bytes, with the reserve to %d, after it to %d", before, with, after)
	}
}

package changefeed

import (
	runtimemetrics "runtime/metrics"
	"slices"
	"sync"
	"weak"
)

// reserves are those that the processors of this program hold.
var reserves reserve

// reserve is memory that is held and never touched, so that the garbage collector, which runs when the heap has doubled, runs
// less often: a processor turns over a page after the other, keeps next to nothing, and so had its few live megabytes
// marked every three pages of 1,000 documents. Untouched, it takes addresses and no memory: where it comes to lie in memory that
// was never used. What was used before is cleared, and by that touched.
//
// The processors of a program share one, of the largest size that any of them asked for.
type reserve struct {
	mu    sync.Mutex // guards all fields
	sizes []int      // of those who hold it
	block *byte      // the first of its bytes; nil: nobody holds it
	bytes int        // how many it has
	// last finds the block again that nobody holds and the collector hasn't taken: a new one in the place of the old would have
	// to be cleared, and by that be touched.
	last weak.Pointer[byte]
}

// hold takes part in the reserve until release is called, once.
func (r *reserve) hold(size int) (release func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.sizes = append(r.sizes, size)
	if r.block == nil {
		r.block = r.last.Value()
	}
	if r.block == nil || size > r.bytes {
		r.block = nil // it need not be there beside the new one
		r.block, r.bytes = &make([]byte, size)[0], size
		r.last = weak.Make(r.block)
	}
	return func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		i := slices.Index(r.sizes, size)
		if r.sizes = slices.Delete(r.sizes, i, i+1); len(r.sizes) == 0 {
			r.block = nil
		}
	}
}

// turnover is what a run of a processor has read, and its part in the reserve, which begins when that is a quarter of its size: a
// processor with little to read has no part in it.
type turnover struct {
	mu      sync.Mutex // guards all fields
	size    int        // Config.HeapReserve
	bytes   int
	release func()
	settled bool // whether it has a part, or the run is over
}

// read counts the bytes of a page.
func (t *turnover) read(bytes int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.settled || t.size <= 0 {
		return
	}
	if t.bytes += bytes; t.bytes < t.size/4 {
		return
	}
	t.settled = true
	if affordable(t.size) {
		t.release = reserves.hold(t.size)
	}
}

// end is called when the run is over.
func (t *turnover) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.settled = true
	if t.release != nil {
		t.release()
		t.release = nil
	}
}

// affordable reports that the garbage collector runs as Go has it run where nobody sets GOGC (who does is the better judge of the
// program), and that a reserve of that size is no more than an eighth of GOMEMLIMIT, which counts it as if it were used.
func affordable(size int) bool {
	s := []runtimemetrics.Sample{{Name: "/gc/gogc:percent"}, {Name: "/gc/gomemlimit:bytes"}}
	runtimemetrics.Read(s)
	for i := range s {
		if s[i].Value.Kind() != runtimemetrics.KindUint64 {
			return false // this version of Go doesn't tell
		}
	}
	return s[0].Value.Uint64() == 100 && uint64(size) <= s[1].Value.Uint64()/8
}

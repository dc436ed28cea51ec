package simulation

import (
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
)

var rout = flag.String("sim.hashes", "", "")

func TestHashes(t *testing.T) {
	if *rout == "" {
		t.Skip()
	}
	f, _ := os.Create(*rout)
	defer f.Close()
	var mu sync.Mutex
	runSeeds(nextSeeds(*simFirst, seeds()), func(seed uint64) bool {
		s := runPlan(t, plan{seed: seed}, false)
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintf(f, "%d %x\n", seed, s.hash)
		for i, v := range s.violations {
			if i < 3 {
				fmt.Fprintf(f, "   %d %v\n", seed, v)
			}
		}
		return true
	})
}

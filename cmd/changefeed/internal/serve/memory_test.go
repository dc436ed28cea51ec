package serve

import (
	"context"
	"errors"
	"math"
	"runtime/debug"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/server"
)

func TestMemoryIsDividedBetweenCacheAndRequests(t *testing.T) {
	for _, c := range []struct {
		config        Config
		system, cache int64
		refused       string
	}{
		{Config{}, 12 << 30, 128 * mib, ""},
		{Config{}, 10 * mib, 16 * mib, ""}, // the memory is minMemory at least, and the cache an eighth of it
		{Config{Memory: 256}, 12 << 30, 32 * mib, ""},
		{Config{Memory: 140, Cache: 60}, 12 << 30, 0, "choose a cache of at most 28"},
		{Config{Memory: 256, Cache: 80}, 12 << 30, 80 * mib, ""},
		{Config{Memory: 256, Cache: 200}, 12 << 30, 0, "--cache 200 is more than half of --memory-limit 256"},
		{Config{Cache: 4000}, 1 << 30, 0, "set --memory-limit"},
		{Config{Memory: minMemory}, 12 << 30, 16 * mib, ""},
		{Config{Memory: minMemory - 1}, 12 << 30, 0, "--memory-limit is 127: it must be 128 to"},
		{Config{Memory: -1}, 12 << 30, 0, "--memory-limit is -1"},
	} {
		p, err := c.config.memory(c.system)
		if c.refused != "" {
			if err == nil || !strings.Contains(err.Error(), c.refused) || !errors.As(err, new(*ConfigError)) {
				t.Errorf("%+v: %v, want %q", c.config, err, c.refused)
			}
			continue
		}
		if err != nil || p.cache != c.cache || p.requests < server.MinMemoryLimit || p.cache+p.requests*garbageFactor+ownMemory > p.limit {
			t.Errorf("%+v: %+v, %v", c.config, p, err)
		}
		if n := p.connections(); n < 1 || int64(n)*connectionMemory > p.limit/connectionShare {
			t.Errorf("%+v: %d connections", c.config, n)
		}
	}
}

func TestTheCollectorKeepsToTheMemoryLimit(t *testing.T) {
	before := debug.SetMemoryLimit(-1)
	p := memoryPlan{limit: 256 * mib, cache: 32 * mib}
	undo := p.collect()
	if during := debug.SetMemoryLimit(-1); during >= p.limit || during < p.limit/2 {
		t.Errorf("the collector's limit is %d", during)
	}
	undo()
	t.Setenv("GOMEMLIMIT", "1GiB")
	defer p.collect()()
	if now := debug.SetMemoryLimit(-1); now != before {
		t.Errorf("the collector's limit is %d, not %d; GOMEMLIMIT is the user's", now, before)
	}
}

func TestTheDefaultOfMemoryIsThatOfTheControlGroupOrTheMachine(t *testing.T) {
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text)} }
	machine := file("MemFree: 1 kB\nMemTotal:       16777216 kB\n")
	for name, c := range map[string]struct {
		root fstest.MapFS
		want float64
	}{
		"no control group":          {fstest.MapFS{"proc/meminfo": machine}, machineShare * (16 << 30)},
		"an unknown machine":        {fstest.MapFS{}, machineShare * unknownMemory},
		"a control group alone":     {fstest.MapFS{"proc/self/cgroup": file("0::/\n"), "sys/fs/cgroup/memory.max": file("1073741824\n")}, groupShare * (1 << 30)},
		"version 2":                 {fstest.MapFS{"proc/meminfo": machine, "proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("1073741824\n")}, groupShare * (1 << 30)},
		"version 2, from above":     {fstest.MapFS{"proc/meminfo": machine, "proc/self/cgroup": file("0::/a/b\n"), "sys/fs/cgroup/a/b/memory.max": file("max\n"), "sys/fs/cgroup/a/memory.max": file("536870912\n")}, groupShare * (512 << 20)},
		"version 2, no limit":       {fstest.MapFS{"proc/meminfo": machine, "proc/self/cgroup": file("0::/a\n"), "sys/fs/cgroup/a/memory.max": file("max\n")}, machineShare * (16 << 30)},
		"version 1":                 {fstest.MapFS{"proc/meminfo": machine, "proc/self/cgroup": file("5:cpu,cpuacct:/x\n4:memory:/a\n0::/\n"), "sys/fs/cgroup/memory/a/memory.limit_in_bytes": file("1073741824\n")}, groupShare * (1 << 30)},
		"version 1, in a container": {fstest.MapFS{"proc/meminfo": machine, "proc/self/cgroup": file("4:memory:/docker/abc\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("1073741824\n")}, groupShare * (1 << 30)},
		"version 1, no limit":       {fstest.MapFS{"proc/meminfo": machine, "proc/self/cgroup": file("4:memory:/\n"), "sys/fs/cgroup/memory/memory.limit_in_bytes": file("9223372036854771712\n")}, machineShare * (16 << 30)},
	} {
		if got := systemMemory(c.root); float64(got) < c.want-1 || float64(got) > c.want {
			t.Errorf("%s: %d, not %.0f", name, got, c.want)
		}
	}
	defer debug.SetMemoryLimit(debug.SetMemoryLimit(1 << 20))
	if got := systemMemory(fstest.MapFS{"proc/meminfo": machine}); got != 1<<20 {
		t.Errorf("beside a lower GOMEMLIMIT: %d", got)
	}
}

func TestMemoryIsGivenBackWhenRequestsHaveEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var held atomic.Int64
		collected := 0
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go func() {
			reclaim(ctx, held.Load, func() { collected++ })
			close(done)
		}()
		wait := func(d time.Duration, n int64, want int, what string) {
			held.Store(n)
			time.Sleep(d)
			synctest.Wait()
			if collected != want {
				t.Errorf("%s: %d collections, want %d", what, collected, want)
			}
		}
		wait(time.Hour, 100*mib, 0, "while requests hold it")
		wait(time.Minute, 60*mib, 0, "while most is held")
		wait(2*reclaimEvery, 0, 1, "when they have ended")
		wait(time.Hour, 0, 1, "at rest")
		wait(2*reclaimEvery, reclaimBytes-1, 1, "when little was held")
		wait(time.Minute, 0, 1, "when little was given back")
		for range 4 * int(reclaimPause/reclaimEvery) { // repeat a load that comes and goes
			held.Store(100*mib - held.Load())
			time.Sleep(reclaimEvery)
		}
		synctest.Wait()
		if collected > 6 {
			t.Errorf("%d collections in %s", collected, 4*reclaimPause)
		}
		cancel()
		<-done
	})
}

func TestFileDescriptorsAreReservedForTheStore(t *testing.T) {
	for _, limit := range []int{minDescriptors, 100, 256, 1024, 1 << 20, math.MaxInt32} {
		p, err := planDescriptors(limit)
		if err != nil || p.tables < minTables || p.tables > maxTables || p.connections < minTables || p.tables+p.connections+ownDescriptors > limit {
			t.Errorf("%d: %+v, %v", limit, p, err)
		}
	}
	if _, err := planDescriptors(minDescriptors - 1); err == nil || !strings.Contains(err.Error(), "raise the limit to at least 64") {
		t.Errorf("%v", err)
	}
	if p, err := planDescriptors(0); err != nil || p.tables != maxTables || p.connections != 0 {
		t.Errorf("where no limit is known: %+v, %v", p, err)
	}
}

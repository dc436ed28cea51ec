package serve

import (
	"context"
	"io/fs"
	"math"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/server"
)

// This file divides a server's memory between its store, its requests and its
// connections.

const (
	mib = 1 << 20
	// These shares of the available memory are the default of Config.Memory. groupShare
	// applies to the limit of a control group, which probably has no other process.
	// machineShare applies to a whole machine.
	groupShare   = 0.8
	machineShare = 0.5
	// unknownMemory is assumed to be the machine's memory, in bytes, if the system does
	// not report it.
	unknownMemory = 4 << 30
	// minMemory is the minimum of Config.Memory, in MiB.
	minMemory = 128
	// ownMemory is the memory of an idle server: its program, goroutines and metrics.
	ownMemory = 48 * mib
	// outsideGo is the part of the process's memory that Go's runtime does not manage:
	// the program, and memory that C's allocator keeps.
	outsideGo = 52 * mib
	// By default, the store's cache gets 1/cacheShare of the memory. It may get at most
	// 1/maxCacheShare.
	cacheShare, maxCacheShare = 8, 2
	// garbageFactor is the memory that Go's heap needs for each byte in use, because
	// garbage is collected later.
	garbageFactor = 2
	// Idle connections may use 1/connectionShare of the memory. Each one uses about
	// connectionMemory bytes, for its goroutine, its buffers and its TLS state.
	connectionShare  = 8
	connectionMemory = 64 << 10
)

// memoryPlan divides a server's memory. Its fields are in bytes.
type memoryPlan struct {
	// limit is the whole memory.
	limit int64
	// cache is the part for the store. requests is the part for all requests together.
	cache, requests int64
}

// memory returns the memory plan of a Config. system is the memory in bytes that is used
// if Config.Memory is zero.
func (c Config) memory(system int64) (memoryPlan, error) {
	p := memoryPlan{limit: int64(c.Memory) * mib, cache: int64(c.Cache) * mib}
	if p.limit == 0 {
		p.limit = max(system, minMemory*mib)
		if p.cache > p.limit/maxCacheShare {
			return p, refuse("--cache %d is more than half of the memory that the server may use (%d MiB); choose a smaller --cache, or set --memory-limit",
				c.Cache, p.limit/mib)
		}
	}
	if p.limit < minMemory*mib || p.limit > maxCache*mib {
		return p, refuse("--memory-limit is %d: it must be %d to %d (MiB)", c.Memory, minMemory, maxCache)
	}
	if p.cache > p.limit/maxCacheShare {
		return p, refuse("--cache %d is more than half of --memory-limit %d; choose a smaller cache, or a larger limit", c.Cache, c.Memory)
	}
	if p.cache == 0 {
		p.cache = min(DefaultCache*mib, p.limit/cacheShare)
	}
	p.requests = (p.limit - p.cache - ownMemory) / garbageFactor
	if p.requests < server.MinMemoryLimit {
		return p, refuse("--memory-limit %d leaves too little for requests beside --cache %d; choose a cache of at most %d, or a larger limit",
			p.limit/mib, p.cache/mib, (p.limit-ownMemory-garbageFactor*server.MinMemoryLimit)/mib)
	}
	return p, nil
}

// connections returns the number of idle connections for which the plan has memory.
func (p memoryPlan) connections() int {
	return int(min(p.limit/connectionShare/connectionMemory, math.MaxInt32))
}

// collect sets the memory limit of Go's garbage collector as planned, unless GOMEMLIMIT
// is set. The function undo restores the previous limit.
func (p memoryPlan) collect() (undo func()) {
	if os.Getenv("GOMEMLIMIT") != "" {
		return func() {}
	}
	managed := p.limit - outsideGo
	if cacheOutsideGo() {
		managed -= p.cache * 3 / 2 // C's allocator needs about half as much again
	}
	before := debug.SetMemoryLimit(managed)
	return func() { debug.SetMemoryLimit(before) }
}

// cacheOutsideGo reports whether the store's cache is not in Go's heap. This is so if the
// program was built with cgo.
func cacheOutsideGo() bool {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return false
	}
	for _, s := range info.Settings {
		if s.Key == "CGO_ENABLED" {
			return s.Value == "1"
		}
	}
	return false
}

// systemMemory returns the default of Config.Memory, in bytes. It is a share of the
// control group's limit or of the machine's memory, or GOMEMLIMIT if that is less. root
// is the root of the file system.
func systemMemory(root fs.FS) int64 {
	n := int64(machineShare * unknownMemory)
	machine, known := machineMemory(root)
	if known {
		n = int64(machineShare * float64(machine))
	}
	if group, ok := groupMemory(root); ok && (!known || group < machine) {
		n = int64(groupShare * float64(group))
	}
	return min(n, debug.SetMemoryLimit(-1))
}

// machineMemory returns the machine's memory in bytes. ok is false if the system does not
// report it.
func machineMemory(root fs.FS) (n int64, ok bool) {
	text, err := fs.ReadFile(root, "proc/meminfo")
	if err != nil {
		return 0, false
	}
	for line := range strings.Lines(string(text)) {
		if rest, found := strings.CutPrefix(line, "MemTotal:"); found {
			kb, err := strconv.ParseInt(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 10, 64)
			return kb << 10, err == nil
		}
	}
	return 0, false
}

// groupMemory returns the lowest memory limit of the process's control group and its
// ancestors, in bytes. It reads control groups of version 1 and 2. ok is false if there
// is no limit.
func groupMemory(root fs.FS) (n int64, ok bool) {
	text, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	n = math.MaxInt64
	for line := range strings.Lines(string(text)) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3) // number, controllers, path
		if len(parts) != 3 {
			continue
		}
		mount, file := "sys/fs/cgroup", "memory.max"
		if parts[1] != "" {
			mount, file = "sys/fs/cgroup/memory", "memory.limit_in_bytes"
			if !slices.Contains(strings.Split(parts[1], ","), "memory") {
				continue
			}
		}
		// In a container the path in this file may be that on the host. So missing files
		// are skipped up to the mount, which belongs to the container.
		for at := path.Clean("/" + parts[2]); ; at = path.Dir(at) {
			limit, err := fs.ReadFile(root, path.Join(mount, at, file))
			if err == nil {
				if v, err := strconv.ParseInt(strings.TrimSpace(string(limit)), 10, 64); err == nil && v > 0 { // "max" is not a number
					n = min(n, v)
				}
			}
			if at == "/" {
				break
			}
		}
	}
	return n, n != math.MaxInt64
}

const (
	// reclaimEvery is the time between two checks for memory that can be returned.
	// reclaimPause is the minimum time between two collections.
	reclaimEvery = time.Second
	reclaimPause = 5 * time.Second
	// reclaimBytes is the minimum number of bytes for which a collection is worth its
	// cost.
	reclaimBytes = 16 * mib
)

// reclaim returns memory to the system after requests that held much of it, until ctx
// ends. inFlight returns the number of bytes that requests hold. collect collects
// garbage, and returns its memory to the system.
//
// Without reclaim, an idle server would keep the memory for minutes. Go collects garbage
// only when the heap has doubled, or every two minutes.
func reclaim(ctx context.Context, inFlight func() int64, collect func()) {
	ticker := time.NewTicker(reclaimEvery)
	defer ticker.Stop()
	var most int64
	var last time.Time
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		now := inFlight()
		most = max(most, now)
		if most-now < reclaimBytes || now > most/2 || time.Since(last) < reclaimPause {
			continue
		}
		collect()
		most, last = inFlight(), time.Now()
	}
}

// collectAll collects garbage, including the contents of pools, and returns its memory to
// the system.
func collectAll() {
	debug.FreeOSMemory() // the first call only marks the content of pools
	debug.FreeOSMemory() // the second one collects it
}

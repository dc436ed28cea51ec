// Package compare measures the rates at which this module's processor and Java's read the
// changes of one container. Both read over loopback HTTP from the same server, in turns:
// 4 partitions, documents of 1 KB, one host each. Both keep their leases in the same
// dialect and write a checkpoint after each page.
//
//	make compare-java
//	go test ./interop/compare -timeout 0 -v -compare -compare.setting latestVersion/0
//
// Each host is a process that reads everything once before the measurement, to warm up. A
// rate counts all changes, from the first batch of a handler to the last. The test needs
// Java 17 and Maven, and takes 3 to 5 minutes.
package compare

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/interop/internal/harness"
)

var (
	compareRun = flag.Bool("compare", false, "measure the rates of this module's processor and of Java's")
	documents  = flag.Int("compare.documents", 150_000, "`number` of documents; these fit into the cache of the server")
	rounds     = flag.Int("compare.rounds", 5, "number of measurements of each host")
	binary     = flag.String("compare.binary", "", "the server's command, a path from the repository's root; if empty, it is built")
	goHost     = flag.String("compare.gohost", "", "the program of our hosts, a path from the repository's root; if empty, it is built")
	only       = flag.String("compare.only", "", "java: only Java's host; go: only our hosts; if empty, both")
	setting    = flag.String("compare.setting", "", "only this setting: a mode and a page size, such as handleChanges/1000, or handleChanges/0 for the default size")
)

const (
	partitions = 4
	// keys is the number of partition keys. It is large enough to fill the partitions
	// evenly.
	keys = 4000
	// size is the size of a document in a request, in bytes.
	size = 1000
	// cache is the size of the server's cache in MiB. All documents fit into it beside
	// the recent writes.
	cache = "768"
	// patience is the longest time that one host may take for all changes.
	patience = 10 * time.Minute
)

// stage contains the server, the containers, and the processes that run hosts, by name.
type stage struct {
	*testing.T
	harness.Driver
	turns   int
	process map[string]*harness.Process
	reached chan []string
	sonic   string // the program of our hosts that can decode with Sonic
}

var monitored, leases = harness.Container{Database: "compare", Name: "monitored"}, harness.Container{Database: "compare", Name: "leases"}

func TestRatesBesideJava(t *testing.T) {
	if !*compareRun {
		t.Skip("run with -compare (make compare-java)")
	}
	s := &stage{
		T: t, Driver: harness.Driver{Binary: *binary, GoHost: *goHost, Flags: []string{"--cache", cache}},
		process: map[string]*harness.Process{}, reached: make(chan []string, 1),
	}
	s.Start(t)
	s.load()
	if *only != "go" {
		s.process["java"] = s.LaunchJava(t, "java", s.line)
	}
	if *only != "java" {
		s.process["go"] = s.LaunchGo(t, "go", s.line)
		// Decoding creates garbage in the heap. So the hosts that decode have a process
		// of their own.
		s.process["decoding"] = s.LaunchGo(t, "decoding", s.line)
		s.process["sonic"] = s.launchSonic("sonic")
		s.process["sonic-gogc"] = s.launchSonic("sonic-gogc", "GOGC=400")
		// At GOGC=400 the collector runs less often; see docs/where-to-run.md.
		s.process["gogc"] = s.LaunchGo(t, "gogc", s.line, "GOGC=400")
	}
	s.measure()
	for name, p := range s.process {
		mib, err := p.Memory()
		s.ok(err)
		t.Logf("%s: %d MiB of memory at most", name, mib)
		s.ok(p.Quit(t.Context()))
	}
}

// launchSonic starts a process with our hosts that can decode with module sonicjson. The
// program is built with a go.mod that requires that module, beside the repository's own.
func (s *stage) launchSonic(name string, environment ...string) *harness.Process {
	s.Helper()
	if s.sonic == "" {
		work := s.TempDir()
		module := filepath.Join(work, "go.mod")
		for _, file := range []string{"go.mod", "go.sum"} {
			text, err := os.ReadFile(file)
			s.ok(err)
			s.ok(os.WriteFile(filepath.Join(work, file), text, 0o600))
		}
		const path = "github.com/changefeed-go/changefeed/sonicjson"
		s.run("mod", "edit", "-require="+path+"@v0.0.0", "-replace="+path+"=./sonicjson", module)
		s.sonic = filepath.Join(work, "gohost")
		s.run("build", "-modfile="+module, "-mod=mod", "-tags=sonic", "-o", s.sonic, "./interop/gohost")
	}
	d := s.Driver
	d.GoHost = s.sonic
	return d.LaunchGo(s.T, name, s.line, environment...)
}

// run runs the go command.
func (s *stage) run(args ...string) {
	s.Helper()
	if out, err := exec.CommandContext(s.Context(), "go", args...).CombinedOutput(); err != nil {
		s.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// ok ends the test if err is not nil.
func (s *stage) ok(err error) {
	s.Helper()
	if err != nil {
		s.Fatal(err)
	}
}

// line receives the output lines of hosts. A line "reached" reports that a host has
// handled the expected number of changes.
func (s *stage) line(fields []string) {
	if fields[0] == "reached" {
		s.reached <- fields
	}
}

// load creates the monitored container and writes all documents to it.
func (s *stage) load() {
	s.ok(s.Client.CreateDatabase(s.Context(), monitored.Database))
	s.ok(s.Client.CreateContainer(s.Context(), monitored, "/pk", partitions))
	s.ok(s.Client.CreateContainer(s.Context(), leases, "/id", 1))
	const writers = 16
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := w; n < *documents; n += writers {
				key := "k" + strconv.Itoa(n%keys)
				if err := s.Client.Upsert(s.Context(), monitored, key, document(n, key)); err != nil {
					s.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if s.Failed() {
		s.FailNow()
	}
	live, err := s.Client.Partitions(s.Context(), monitored)
	s.ok(err)
	for _, p := range live {
		s.Logf("partition %s: %d documents of %d bytes, plus the members that the service adds", p.ID, p.Documents, len(document(0, "k0")))
	}
}

// document returns an order as JSON, with members of several types and about size bytes.
func document(n int, key string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `{"id":"i%08d","pk":%q,"n":%d,"customer":{"name":"Customer %d","city":"Rotterdam","vip":%t},"lines":[`, n, key, n, n%997, n%7 == 0)
	for i := 0; b.Len() < size-140; i++ {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"sku":"SKU-%06d","quantity":%d,"price":%d.%02d}`, (n*31+i*7)%1_000_000, i%9+1, n%400, i%100)
	}
	fmt.Fprintf(&b, `],"total":%d.50,"state":"shipped","note":%q}`, n%10_000, strings.Repeat("x", max(0, size-b.Len()-50)))
	return b.String()
}

// Package examples_test runs each example unchanged, as a process, against a server on
// this machine.
package examples_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/letters"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/storetype"
)

const key = "ZXhhbXBsZXM="

// shop starts a server with a container of 40 orders, one of which cannot be decoded. It
// returns the endpoint, and a function that writes another document.
func shop(t *testing.T) (endpoint string, write func(doc string)) {
	t.Helper()
	db := changefeedtest.NewStore(t)
	orders := changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}, Partitions: 2})
	write = func(doc string) {
		if _, err := orders.Upsert(context.WithoutCancel(t.Context()), nil, []byte(doc), storetype.WriteOptions{}); err != nil {
			t.Error(err)
		}
	}
	for i := range 39 {
		write(fmt.Sprintf(`{"id":"%d","customer":"c%d","total":%d}`, i, i, i))
	}
	write(`{"id":"odd","customer":"odd","total":"many"}`)
	h, err := server.New(db, server.Options{Keys: []string{key}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	return s.URL, write
}

// program is a running example, with the lines that it has printed.
type program struct {
	t     *testing.T
	cmd   *exec.Cmd
	dir   string
	lines *bufio.Scanner
	errs  *bytes.Buffer
	seen  []string
}

// start builds an example, and starts it in the directory dir.
func start(t *testing.T, name, endpoint, dir string) *program {
	t.Helper()
	binary := filepath.Join(t.TempDir(), name)
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p := &program{t: t, dir: dir, errs: &bytes.Buffer{}, cmd: exec.CommandContext(t.Context(), binary)}
	p.cmd.Dir, p.cmd.Stderr = dir, p.errs
	p.cmd.Env = append(os.Environ(), "COSMOS_CONNECTION_STRING=", "COSMOS_ENDPOINT="+endpoint, "COSMOS_KEY="+key, "METRICS_ADDRESS=127.0.0.1:0")
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.lines = bufio.NewScanner(out)
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return p
}

// until reads lines of the example's output until want returns true for the lines so far.
func (p *program) until(want func(lines []string) bool) {
	p.t.Helper()
	for !want(p.seen) {
		if !p.lines.Scan() {
			p.t.Fatalf("it ended after %q: %v: %s", p.seen, p.cmd.Wait(), p.errs)
		}
		p.seen = append(p.seen, p.lines.Text())
	}
}

// end stops the example by a signal, as a service manager does. It fails the test unless
// the exit status is 0.
func (p *program) end() {
	p.t.Helper()
	if err := p.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.t.Fatal(err)
	}
	p.rest()
}

// rest reads the remaining output, and waits until the example has ended.
func (p *program) rest() {
	p.t.Helper()
	for p.lines.Scan() {
		p.seen = append(p.seen, p.lines.Text())
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Errorf("%v: %s", err, p.errs)
	}
}

func count(lines []string, part string) (n int) {
	for _, line := range lines {
		if strings.Contains(line, part) {
			n++
		}
	}
	return n
}

func TestOrdersCreatesTheContainerAndContinuesInALaterRun(t *testing.T) {
	db := changefeedtest.NewStore(t)
	h, err := server.New(db, server.Options{Keys: []string{key}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	for range 2 { // the second run finds the container
		p := start(t, "orders", s.URL, t.TempDir())
		p.until(func(lines []string) bool { return count(lines, `wrote {"id":"`) > 1 })
		p.end()
	}
	orders, err := db.Container(t.Context(), "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	stats, err := orders.PartitionStats(t.Context())
	if err != nil || len(stats) != 1 || stats[0].Items < 4 {
		t.Errorf("%+v (%v), want one partition of at least 4 items", stats, err)
	}
}

func TestMinimalPrintsLaterWrites(t *testing.T) {
	endpoint, write := shop(t)
	p := start(t, "minimal", endpoint, t.TempDir())
	// The example does not print when it has started. So the test writes orders until the
	// example prints one.
	printed, stopped := make(chan struct{}), sync.WaitGroup{}
	stopped.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-printed:
				return
			default:
				write(fmt.Sprintf(`{"id":"new-%d","customer":"new","total":1}`, i))
			}
		}
	})
	p.until(func(lines []string) bool { return count(lines, `"customer":"new"`) > 0 })
	close(printed)
	stopped.Wait()
	if n := count(p.seen, `"customer":"c`); n > 0 {
		t.Errorf("%d old orders: %q", n, p.seen)
	}
	p.end()
}

// The processor logs its failures: a line when an outage begins, one a minute, and one when it
// ends. An example that logs each of them again hides the others.
func TestMinimalLogsNoFailureAgain(t *testing.T) {
	db := changefeedtest.NewStore(t)
	changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}})
	h, err := server.New(db, server.Options{Keys: []string{key}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	p := start(t, "minimal", s.URL, t.TempDir())
	if _, err := h.Faults().Add(server.Fault{Operation: "read change feed", Status: http.StatusInternalServerError, Skip: 2}); err != nil {
		t.Fatal(err)
	}
	for h.Faults().List()[0].Hits < 5 { // more than one read makes, with its own attempts
		time.Sleep(10 * time.Millisecond)
	}
	p.end()
	for line := range strings.Lines(p.errs.String()) {
		if !strings.Contains(line, " INFO ") && !strings.Contains(line, " WARN ") {
			t.Errorf("besides the processor, the example logs: %s", line)
		}
	}
	if !strings.Contains(p.errs.String(), "fail; retrying") {
		t.Errorf("the outage is not logged: %s", p.errs)
	}
}

func TestTypedSetsAsideUndecodableChanges(t *testing.T) {
	endpoint, _ := shop(t)
	p := start(t, "typed", endpoint, t.TempDir())
	p.until(func(lines []string) bool { return count(lines, " ordered for ") == 39 })
	account, err := cosmos.WithKey(endpoint, key, cosmos.Options{})
	if err != nil {
		t.Fatal(err)
	}
	store, err := account.Letters("shop", "letters", cosmos.LetterOptions{}).Open(t.Context(), letters.Key{})
	if err != nil {
		t.Fatal(err)
	}
	var items []string
	for len(items) == 0 {
		for l, err := range store.Read(t.Context(), letters.Query{}) {
			if err != nil {
				t.Fatal(err)
			}
			items = append(items, l.ItemID)
		}
	}
	p.end()
	if len(items) != 1 || items[0] != "odd" {
		t.Errorf("the letters are of %q", items)
	}
}

func TestObserverKeepsAFilePerLease(t *testing.T) {
	endpoint, _ := shop(t)
	p := start(t, "observer", endpoint, t.TempDir())
	p.until(func(lines []string) bool { return count(lines, "open ") == 2 })
	lines := func() (n int) {
		for _, lease := range []string{"0", "1"} {
			text, err := os.ReadFile(filepath.Join(p.dir, "lease-"+lease+".ndjson"))
			if err != nil {
				t.Fatal(err)
			}
			n += strings.Count(string(text), "\n")
		}
		return n
	}
	for lines() < 40 {
	}
	p.end()
	if n := count(p.seen, "shutdown"); n != 2 || lines() != 40 {
		t.Errorf("%d lines; %q", lines(), p.seen)
	}
}

func TestCheckpointWritesSeveralBatchesTogether(t *testing.T) {
	endpoint, write := shop(t)
	written := func(lines []string) (total int) {
		for _, line := range lines {
			var lease string
			var n int
			if _, err := fmt.Sscanf(strings.ReplaceAll(line, ":", " "), "lease %s %d changes", &lease, &n); err != nil {
				t.Fatalf("%v in %q", err, line)
			}
			total += n
		}
		return total
	}
	p := start(t, "checkpoint", endpoint, t.TempDir())
	p.until(func(lines []string) bool { return len(lines) >= 2 })
	p.end() // at the end, the example writes the changes that it has collected
	again := start(t, "checkpoint", endpoint, t.TempDir())
	if first := written(p.seen); first < 40 {
		again.until(func(lines []string) bool { return first+written(lines) >= 40 })
	} else {
		write(`{"id":"x","customer":"c1","total":1}`)
		again.until(func(lines []string) bool { return len(lines) > 0 })
	}
	again.end()
	if total := written(p.seen) + written(again.seen); total > 41 || !strings.Contains(p.seen[0], ": 1") { // 12 changes come in three batches
		t.Errorf("%d changes: %q, %q", total, p.seen, again.seen)
	}
}

func TestLagOffersMetricsAndProbes(t *testing.T) {
	endpoint, _ := shop(t)
	p := start(t, "lag", endpoint, t.TempDir())
	p.until(func(lines []string) bool { return count(lines, "metrics at ") == 1 })
	url := strings.TrimPrefix(p.seen[0], "metrics at ")
	for { // a host that is stopped before it has its leases ends with an error
		page := get(t, url)
		if sum(t, page, "changefeed_processor_changes_total{") == 40 && strings.Contains(page, "changefeed_estimator_leases{") {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	for _, probe := range []string{"alive", "ready"} {
		if body := get(t, strings.TrimSuffix(url, "metrics")+probe); body != probe+"\n" {
			t.Errorf("/%s: %q", probe, body)
		}
	}
	p.end()
}

func TestHostWritesEachChangeAndOffersProbes(t *testing.T) {
	endpoint, _ := shop(t)
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close() // the host takes the port
	t.Setenv("LISTEN", address)
	t.Setenv("INSTANCE", "first")
	p := start(t, "host", endpoint, t.TempDir())
	p.until(func(lines []string) bool { return len(lines) == 40 })
	if n := count(p.seen, `{"Instance":"first","Lease":"`); n != 40 {
		t.Errorf("%d changes of this host: %q", n, p.seen)
	}
	for _, probe := range []string{"alive", "ready"} {
		if body := get(t, "http://"+address+"/"+probe); body != probe+"\n" {
			t.Errorf("/%s: %q", probe, body)
		}
	}
	if page := get(t, "http://"+address+"/metrics"); sum(t, page, "changefeed_processor_leases{") != 2 {
		t.Errorf("the metrics are %s", page)
	}
	p.end()
	if len(p.seen) != 40 {
		t.Errorf("%d changes", len(p.seen))
	}
}

// sum adds the values of the lines of a page of metrics that begin with a prefix.
func sum(t *testing.T, page, prefix string) (total float64) {
	t.Helper()
	for line := range strings.Lines(page) {
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		fields := strings.Fields(line)
		value, err := strconv.ParseFloat(fields[len(fields)-1], 64)
		if err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		total += value
	}
	return total
}

// get sends a GET request. It returns the body of the answer, whose status must be 200.
func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%d: %v: %s", answer.StatusCode, err, body)
	}
	return string(body)
}

func TestPullResumesAfterTheLastRun(t *testing.T) {
	endpoint, write := shop(t)
	dir := t.TempDir()
	for i, want := range []string{"40 changes since the last run", "0 changes since the last run", "2 changes since the last run"} {
		if i == 2 {
			write(`{"id":"x","customer":"c1","total":1}`)
			write(`{"id":"y","customer":"c2","total":2}`)
		}
		p := start(t, "pull", endpoint, dir)
		p.rest()
		if len(p.seen) != 1 || p.seen[0] != want {
			t.Errorf("run %d: %q", i+1, p.seen)
		}
	}
}

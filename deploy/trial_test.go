package deploy

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire/wiretest"
)

var trial = flag.Bool("deploy.trial", false, "restart the hosts of a processor one by one, as systemd and Kubernetes do (1 minute)")

// trialPartitions is the number of leases, two for each host.
const trialPartitions = 6

// fleet is a server with hosts of the processor examples/host, all as processes that are
// started and stopped as their units say.
type fleet struct {
	t       *testing.T
	program string
	env     []string
	stop    time.Duration // the unit's TimeoutStopSec
	out     *os.File      // what the hosts write, in the order in which they do
	orders  *wiretest.Client
}

// host is a running host.
type host struct {
	*fleet

	name     string
	url      string
	cmd      *exec.Cmd
	stopping atomic.Bool
	ended    chan error // of the process
	watched  chan error // of watch
}

// Three hosts share six leases while orders are written. First each is stopped and then
// started again, as `systemctl restart` does. Then each is replaced by a new one, which is
// ready before the old one is stopped, as in a Deployment of the chart. Every order reaches
// the handlers once, and those of a customer in order. Since a handler works for 200 ms after
// it has written what it got, each stop comes in the midst of several.
func TestRollingRestartLosesAndRedeliversNothing(t *testing.T) {
	if !*trial {
		t.Skip("needs -deploy.trial (make deploy-trial)")
	}
	f := newFleet(t)
	written, stopWriting := f.write()
	hosts := []*host{f.start(1), f.start(2), f.start(3)}
	f.settled(hosts)
	for i := range hosts {
		hosts[i].end()
		hosts[i] = f.start(i + 1)
	}
	f.settled(hosts)
	for i, old := range hosts {
		hosts[i] = f.start(len(hosts) + i + 1)
		old.end()
	}
	f.settled(hosts)
	stopWriting()
	f.wantOnce(int(written.Load()), hosts)
	for _, h := range hosts {
		h.end()
	}
	f.wantOnce(int(written.Load()), hosts)
}

// newFleet starts changefeed serve as its unit does, in another directory and on other ports,
// and creates the container of the orders.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	line := strings.NewReplacer("/var/lib/changefeed", t.TempDir(), "127.0.0.1:8081", "127.0.0.1:0", "127.0.0.1:8080", freeAddress(t)).
		Replace(settings(t, "changefeed-serve.service", "ExecStart")[0])
	args := append(strings.Fields(line)[1:], "--partitions", strconv.Itoa(trialPartitions))
	server := serving(t, exec.CommandContext(context.WithoutCancel(t.Context()), build(t, "..", "./cmd/changefeed"), args...)) //nolint:gosec // the arguments are the unit's
	seconds, err := strconv.Atoi(settings(t, "processor@.service", "TimeoutStopSec")[0])
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := os.ReadFile(server["certificate"])
	if err != nil {
		t.Fatal(err)
	}
	orders := client(t, server, certificate)
	if _, err := orders.Make(t.Context(), "shop", "orders"); err != nil {
		t.Fatal(err)
	}
	out, err := os.OpenFile(filepath.Join(t.TempDir(), "changes"), os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = out.Close() })
	return &fleet{
		t: t, program: build(t, "../examples", "./host"), stop: time.Duration(seconds) * time.Second, out: out, orders: orders,
		env: append(os.Environ(), "COSMOS_ENDPOINT="+server["endpoint"], "COSMOS_KEY="+server["key"], "SSL_CERT_FILE="+server["certificate"], "WORK=200ms"),
	}
}

// write writes orders of fifty customers, until the test calls stop.
func (f *fleet) write() (written *atomic.Int64, stop func()) {
	ctx, cancel := context.WithCancel(f.t.Context())
	written = new(atomic.Int64)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for n := 0; ctx.Err() == nil; n++ {
			customer := fmt.Sprint("c", n%50)
			if err := f.orders.Put(context.WithoutCancel(ctx), "/dbs/shop/colls/orders", customer, fmt.Sprintf(`{"id":"%d","pk":%q}`, n, customer)); err != nil {
				f.t.Error(err)
				return
			}
			written.Add(1)
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return written, func() {
		cancel()
		<-ended
	}
}

// start starts host n, as its unit does, and waits until it is ready.
func (f *fleet) start(n int) *host {
	f.t.Helper()
	unit := instance(f.t, n)
	h := &host{fleet: f, name: unit["INSTANCE"], url: "http://" + unit["LISTEN"], ended: make(chan error, 1), watched: make(chan error, 1)}
	h.cmd = exec.CommandContext(f.t.Context(), f.program)
	h.cmd.Env = slices.Clone(f.env)
	for name, value := range unit {
		h.cmd.Env = append(h.cmd.Env, name+"="+value)
	}
	h.cmd.Stdout, h.cmd.Stderr = f.out, os.Stderr
	if err := h.cmd.Start(); err != nil {
		f.t.Fatal(err)
	}
	go func() { h.ended <- h.cmd.Wait() }()
	f.eventually(h.name+" is ready", func() bool {
		status, _, err := h.get("/ready")
		return err == nil && status == http.StatusOK
	})
	go func() { h.watched <- h.watch() }()
	return h
}

// watch asks a host for /alive, as a liveness probe does, until it has ended.
func (h *host) watch() error {
	for {
		status, text, err := h.get("/alive")
		switch {
		case err != nil && h.stopping.Load():
			return nil
		case err != nil:
			return err
		case status != http.StatusOK:
			return fmt.Errorf("/alive has status %d: %s", status, text)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// end stops the host by SIGTERM, and waits as long as the unit allows.
func (h *host) end() {
	h.t.Helper()
	h.stopping.Store(true)
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		h.t.Fatal(err)
	}
	began := time.Now()
	select {
	case err := <-h.ended:
		if err != nil {
			h.t.Errorf("%s: %v", h.name, err)
		}
	case <-time.After(h.stop):
		h.t.Fatalf("systemd would have killed %s, which still runs after %s", h.name, h.stop)
	}
	h.t.Logf("%s stopped in %s", h.name, time.Since(began).Round(time.Millisecond))
	if err := <-h.watched; err != nil {
		h.t.Errorf("%s: %v", h.name, err)
	}
}

// get sends a GET request to the host.
func (h *host) get(path string) (status int, text string, err error) {
	req, err := http.NewRequestWithContext(context.WithoutCancel(h.t.Context()), http.MethodGet, h.url+path, http.NoBody)
	if err != nil {
		return 0, "", err
	}
	a, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = a.Body.Close() }()
	body, err := io.ReadAll(a.Body)
	return a.StatusCode, string(body), err
}

// settled waits until each host has two leases.
func (f *fleet) settled(hosts []*host) {
	f.t.Helper()
	began := time.Now()
	f.eventually("each host has two leases", func() bool {
		for _, h := range hosts {
			_, page, err := h.get("/metrics")
			m := regexp.MustCompile(`(?m)^changefeed_processor_leases\{.*\} (\d+)$`).FindStringSubmatch(page)
			if err != nil || m == nil || m[1] != strconv.Itoa(trialPartitions/len(hosts)) {
				return false
			}
		}
		return true
	})
	f.t.Logf("settled in %s", time.Since(began).Round(time.Millisecond))
}

// eventually waits up to a minute until done returns true.
func (f *fleet) eventually(what string, done func() bool) {
	f.t.Helper()
	for deadline := time.Now().Add(time.Minute); !done(); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			f.t.Fatalf("after a minute it is still not true that %s", what)
		}
	}
}

// wantOnce waits until the hosts have got every order, and fails the test unless they have
// got each once, and those of a customer in order.
func (f *fleet) wantOnce(written int, hosts []*host) {
	f.t.Helper()
	type line struct {
		Instance, Lease string
		Current         struct{ ID, PK string }
	}
	var lines []line
	by := map[string]int{}
	f.eventually(fmt.Sprintf("%d orders are delivered", written), func() bool {
		text, err := os.ReadFile(f.out.Name())
		if err != nil {
			f.t.Fatal(err)
		}
		seen := map[string]bool{}
		lines = nil
		clear(by)
		for l := range bytes.Lines(text) {
			var one line
			if err := json.Unmarshal(l, &one); err != nil {
				f.t.Fatalf("%v in %q", err, l)
			}
			lines = append(lines, one)
			seen[one.Current.ID] = true
			by[one.Instance]++
		}
		return len(seen) == written
	})
	latest, first := map[string]int{}, map[string]line{}
	again := 0
	for _, l := range lines {
		n, err := strconv.Atoi(l.Current.ID)
		if err != nil {
			f.t.Fatal(err)
		}
		if before, seen := first[l.Current.ID]; seen {
			if again++; again == 1 {
				f.t.Errorf("order %d came to %s, lease %s, and then to %s, lease %s", n, before.Instance, before.Lease, l.Instance, l.Lease)
			}
		} else if n < latest[l.Current.PK] {
			f.t.Errorf("order %d of %s came to %s after order %d", n, l.Current.PK, l.Instance, latest[l.Current.PK])
		}
		first[l.Current.ID], latest[l.Current.PK] = l, n
	}
	for _, h := range hosts {
		if by[h.name] == 0 {
			f.t.Errorf("%s has handled nothing", h.name)
		}
	}
	f.t.Logf("%d orders written, %d delivered, %d of them again, by host %v", written, len(lines), again, by)
}

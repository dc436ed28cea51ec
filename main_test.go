package changefeed

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/changefeed-go/changefeed/feed"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the processors' log would hide the test results
	goleak.VerifyTestMain(m)
}

// running is a processor that a test runs in its synctest bubble. stop ends its context,
// and ended receives the result of Run.
type running struct {
	t     *testing.T
	stop  context.CancelFunc
	ended chan error
	once  sync.Once
	err   error
}

// start runs a new processor with cfg, after it has set the required fields that cfg
// lacks. It stops the processor at the end of the test.
func start(t *testing.T, cfg Config) *running {
	t.Helper()
	if cfg.Processor == "" {
		cfg.Processor = "test"
	}
	if cfg.seed == 0 {
		cfg.seed = 1
	}
	if cfg.Instance == "" {
		cfg.Instance = "host"
	}
	p, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	r := &running{t: t, stop: stop, ended: make(chan error, 1)}
	go func() { r.ended <- p.Run(ctx) }()
	t.Cleanup(func() { _ = r.end() })
	return r
}

// end stops the processor, waits for it, and returns the result of Run.
func (r *running) end() error {
	r.once.Do(func() {
		r.stop()
		r.err = <-r.ended
	})
	return r.err
}

// collector is a handler that records the LSNs of the changes that it handled.
type collector struct {
	mu   sync.Mutex // guards the fields below
	lsns []int64
	// took is the duration of each call. fails holds the errors that the next calls
	// return.
	took  time.Duration
	fails []error
}

func (c *collector) Handle(ctx context.Context, b *Batch) error {
	if c.took > 0 && !sleep(ctx, c.took) {
		return context.Cause(ctx)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.fails) > 0 {
		err := c.fails[0]
		c.fails = c.fails[1:]
		return err
	}
	for _, change := range b.Changes {
		c.lsns = append(c.lsns, change.LSN)
	}
	return nil
}

func (c *collector) got() []int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]int64(nil), c.lsns...)
}

// pause sleeps for d of the bubble's time and waits until all goroutines are blocked.
func pause(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// to returns the LSNs 1, 2, ... n.
func to(n int64) []int64 {
	var lsns []int64
	for i := int64(1); i <= n; i++ {
		lsns = append(lsns, i)
	}
	return lsns
}

// notes records the notifications of a processor.
type notes struct {
	mu  sync.Mutex // guards the field all
	all []Notification
}

func (n *notes) add(note Notification) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = append(n.all, note)
}

func (n *notes) of(e Event) []Notification {
	n.mu.Lock()
	defer n.mu.Unlock()
	var of []Notification
	for _, note := range n.all {
		if note.Event == e {
			of = append(of, note)
		}
	}
	return of
}

// onePartition returns a source whose only partition, "0", has n changes.
func onePartition(n int) *fakeSource {
	s := newFakeSource("0")
	s.write("0", n)
	return s
}

var fromBeginning = feed.Beginning()

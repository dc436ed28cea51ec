package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// host is a running processor with a name. Only one goroutine may call stop, block and
// unblock.
type host struct {
	name    string
	printer *printer
	cancel  context.CancelFunc
	done    chan struct{} // closed when Run has returned
	failed  error         // returned by Run; valid after done

	mu      sync.Mutex // guards blocked
	blocked chan struct{}

	until, handled atomic.Int64
	first          time.Time // time of the first batch; written before handled is above 0
	began          sync.Once
	// decode decodes each change into an order. It is nil if the handler only counts.
	decode func(data []byte, v any) error
}

// decoders has the decoders that the option decode names.
var decoders = map[string]func(data []byte, v any) error{"standard": json.Unmarshal}

// start starts a host with these options. It returns an error if an option is invalid.
func start(ctx context.Context, account *cosmos.Account, p *printer, name string, options map[string]string) (*host, error) {
	h := &host{name: name, printer: p, done: make(chan struct{})}
	if decoder := options["decode"]; decoder != "" {
		if h.decode = decoders[decoder]; h.decode == nil {
			return nil, fmt.Errorf("no decoder is named %q", decoder)
		}
	}
	c, err := config(account, options)
	if err != nil {
		return nil, err
	}
	until, _ := strconv.ParseInt(options["until"], 10, 64) // until is 0 if the option is missing; then every change is printed
	h.until.Store(until)
	c.Instance, c.Handler = name, changefeed.HandlerFunc(h.handle)
	c.Notify = func(n changefeed.Notification) {
		switch n.Event {
		case changefeed.Acquired:
			p.say("acquired", name, n.LeaseToken)
		case changefeed.Released:
			p.say("released", name, n.LeaseToken, n.Reason.String())
		case changefeed.Failed:
			p.say("error", name, n.LeaseToken, n.Err.Error())
		case changefeed.Stopped, changefeed.Resumed, changefeed.GivenUp, changefeed.Paused, changefeed.Unpaused:
			p.say(n.Event.String(), name, n.LeaseToken)
		}
	}
	processor, err := changefeed.New(c)
	if err != nil {
		return nil, err
	}
	ctx, h.cancel = context.WithCancel(ctx)
	go func() { // ends with Run; stop waits for it
		defer close(h.done)
		if h.failed = processor.Run(ctx); h.failed != nil {
			p.say("ended", name, h.failed.Error())
		}
	}()
	return h, nil
}

// config returns the configuration of a processor for the options of a command. A missing
// option has its default.
func config(account *cosmos.Account, options map[string]string) (changefeed.Config, error) {
	c := changefeed.Config{Processor: options["prefix"]}
	dialect := lease.DotNet
	switch mode := options["mode"]; mode {
	case "dotnet":
	case "handleChanges":
		dialect = lease.JavaHandleChanges
	case "latestVersion":
		dialect = lease.JavaLatestVersion
	case "allVersions":
		dialect, c.Mode = lease.JavaLatestVersion, feed.AllVersionsAndDeletes
	default:
		return c, fmt.Errorf("unknown mode %q", mode)
	}
	c.Source = account.Source(options["database"], options["monitored"], cosmos.SourceOptions{Dialect: dialect})
	c.Leases = account.Leases(options["database"], options["leases"], cosmos.LeaseOptions{Dialect: dialect})
	switch from := options["from"]; from {
	case "", "now":
	case "beginning":
		c.Start = feed.Beginning()
	default:
		at, err := time.Parse(time.RFC3339Nano, from)
		if err != nil {
			return c, err
		}
		c.Start = feed.At(at)
	}
	for name, into := range map[string]*time.Duration{
		"renew": &c.RenewInterval, "acquire": &c.AcquireInterval, "expire": &c.ExpirationInterval, "poll": &c.PollInterval, "request": &c.RequestTimeout,
	} {
		if text, given := options[name]; given {
			ms, err := strconv.Atoi(text)
			if err != nil {
				return c, fmt.Errorf("%s: %w", name, err)
			}
			*into = time.Duration(ms) * time.Millisecond
		}
	}
	if text, given := options["items"]; given {
		var err error
		if c.MaxItems, err = strconv.Atoi(text); err != nil {
			return c, fmt.Errorf("items: %w", err)
		}
	}
	return c, nil
}

// stop stops the processor, and returns the error of Run.
func (h *host) stop() error {
	h.cancel()
	<-h.done
	return h.failed
}

// block makes handlers wait from now on. unblock lets them continue.
func (h *host) block() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.blocked == nil {
		h.blocked = make(chan struct{})
	}
}

func (h *host) unblock() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.blocked != nil {
		close(h.blocked)
		h.blocked = nil
	}
}

// handle prints the changes of a batch. If the option until is set, it only counts them.
func (h *host) handle(ctx context.Context, b *changefeed.Batch) error {
	if until := h.until.Load(); until > 0 {
		return h.count(b, until)
	}
	for _, c := range b.Changes {
		if err := h.print(c); err != nil {
			return err
		}
	}
	h.mu.Lock()
	blocked := h.blocked
	h.mu.Unlock()
	if blocked != nil {
		select {
		case <-blocked:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (h *host) count(b *changefeed.Batch, until int64) error {
	h.began.Do(func() { h.first = time.Now() })
	if h.decode != nil {
		for _, c := range b.Changes {
			var o order
			if err := h.decode(c.Current, &o); err != nil {
				return err
			}
		}
	}
	size := int64(len(b.Changes))
	if now := h.handled.Add(size); now >= until && now-size < until {
		h.printer.say("reached", h.name, strconv.FormatInt(now, 10), strconv.FormatInt(time.Since(h.first).Microseconds(), 10))
	}
	return nil
}

// order is a document of interop/compare, which compares this module with Java's
// processor. The handler decodes it if asked to.
type order struct {
	ID       string `json:"id"`
	PK       string `json:"pk"`
	N        int    `json:"n"`
	Customer struct {
		Name string `json:"name"`
		City string `json:"city"`
		VIP  bool   `json:"vip"`
	} `json:"customer"`
	Lines []struct {
		SKU      string  `json:"sku"`
		Quantity int     `json:"quantity"`
		Price    float64 `json:"price"`
	} `json:"lines"`
	Total float64 `json:"total"`
	State string  `json:"state"`
	Note  string  `json:"note"`
}

// item is a document that interop/mixed writes.
type item struct {
	ID string `json:"id"`
	PK string `json:"pk"`
	N  *int64 `json:"n"`
}

func (h *host) print(c feed.Change) error {
	var i item
	operation := ""
	if c.Op != feed.Upsert {
		operation = c.Op.String()
	}
	if c.Op == feed.Delete {
		i.ID = c.DeletedID
		if len(c.DeletedKey) == 1 {
			i.PK, _ = c.DeletedKey[0].(string) // interop/mixed writes only strings as keys
		}
	} else if err := json.Unmarshal(c.Current, &i); err != nil {
		return err
	}
	n := int64(-1)
	if i.N != nil {
		n = *i.N
	}
	h.printer.say("change", h.name, strconv.FormatInt(time.Now().UnixMilli(), 10), operation, i.PK, i.ID, strconv.FormatInt(n, 10))
	return nil
}

package changefeed

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// What the handler writes to is down for a while, so that it fails with everything. Only a limited
// number of changes may become letters, and all others are handled afterwards.
func TestOutageMakesFewLetters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		source, leases, p := newFakeSource("0"), newFakeStore(), newPost()
		source.writeKeys("0", keys(500, 500)...)
		var mu sync.Mutex
		down, handled := true, 0
		h := HandlerFunc(func(_ context.Context, b *Batch) error {
			mu.Lock()
			defer mu.Unlock()
			if down {
				return errors.New("no connection")
			}
			handled += len(b.Changes)
			return nil
		})
		cfg := withLetters(Config{Source: source, Handler: h, Concurrency: 4}, p, 2)
		cfg.Failure.Breaker, cfg.Failure.MaxDelay = Breaker{Letters: 20}, time.Minute
		cfg.Processor, cfg.Leases, cfg.seed = "test", leases, 1
		var said notes
		cfg.Notify = said.add
		host, err := New(cfg)
		if err != nil {
			t.Fatal(err)
		}
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- host.Run(ctx) }()
		pause(time.Hour)
		if n := len(p.all(t)); n != 20 || len(said.of(Paused)) != 1 || leases.doc("0").Owner == "" {
			t.Errorf("%d letters, %d pauses are notified", n, len(said.of(Paused)))
		}
		if err := host.Healthy(); err == nil || !strings.Contains(err.Error(), "no letters are written") {
			t.Errorf("while letters are paused, Healthy returns %v", err)
		}
		mu.Lock()
		down = false
		mu.Unlock()
		pause(2 * time.Minute)
		if n := len(p.all(t)); n != 20 || handled != 480 || len(said.of(Unpaused)) != 1 || host.Healthy() != nil {
			t.Errorf("%d letters, %d changes handled, %d ends of pauses; Healthy returns %v", n, handled, len(said.of(Unpaused)), host.Healthy())
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// The breaker counts within its window, can be switched off, and lets a transaction through whose
// changes alone are more than the limit.
func TestBreakerCountsWithinItsWindow(t *testing.T) {
	b := newBreaker(Breaker{Letters: 3, Window: time.Minute})
	for i, step := range []struct {
		at               time.Duration
		n                int
		allowed, changed bool
		succeeds         bool
	}{
		{at: 0, n: 5, allowed: true},
		{at: 30 * time.Second, n: 1, changed: true},
		{at: 2 * time.Minute, n: 1},
		{at: 2 * time.Minute, succeeds: true, allowed: true},
		{at: 3 * time.Minute, n: 3, allowed: true},
		{at: 4*time.Minute - 2, n: 1, changed: true},
		{at: 4*time.Minute - 1, succeeds: true}, // the window has no room yet
		{at: 4*time.Minute - 1, n: 1},
		{at: 4 * time.Minute, n: 3, allowed: true, changed: true},
		{at: 5 * time.Minute, n: 3, allowed: true},
	} {
		if step.succeeds {
			if closed := b.succeeded(step.at); closed != step.allowed || closed && b.succeeded(step.at) {
				t.Errorf("step %d: a success ends the pause: %t", i, closed)
			}
			continue
		}
		if allowed, changed := b.allow(step.at, step.n); allowed != step.allowed || changed != step.changed {
			t.Errorf("step %d: allowed %t, changed %t", i, allowed, changed)
		}
	}
	off := newBreaker(Breaker{Letters: -1, Window: time.Minute})
	for range 1000 {
		if allowed, opened := off.allow(0, 1); !allowed || opened {
			t.Fatal("a breaker that is off opens")
		}
	}
}

package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/changefeed-go/changefeed"
)

// A handler stops a lease, and an operator finds out why, mends the cause, and resumes it.
// The owner goes on without a restart.
func TestLeasesResumeMakesAStoppedLeaseGoOn(t *testing.T) {
	a := newAccount(t)
	var mended atomic.Bool
	handled := make(chan *changefeed.Batch, 100)
	stop := a.handling(func(_ context.Context, b *changefeed.Batch) error {
		if !mended.Load() {
			return changefeed.Stop(errors.New("the table has no column \"colour\""))
		}
		handled <- b
		return nil
	})
	if code, out, errOut := a.run("leases", "resume", "--all"); code != exitOK || out != "no lease is stopped\n" {
		t.Errorf("before the stop: status %d: %s%s", code, out, errOut)
	}
	for i := range 10 {
		a.order(i)
	}
	type listing struct {
		Leases []struct {
			Lease   string
			Stopped *struct{ Since, Reason string }
		}
	}
	stopped := func() (n int) {
		t.Helper()
		code, out, errOut := a.run("leases", "ls", "--json")
		var l listing
		if err := json.Unmarshal([]byte(out), &l); err != nil || code != exitOK {
			t.Fatalf("status %d: %v: %s%s", code, err, out, errOut)
		}
		for _, l := range l.Leases {
			if l.Stopped != nil {
				n++
				if !strings.Contains(l.Stopped.Reason, "no column") || l.Stopped.Since == "" {
					t.Errorf("%+v", l.Stopped)
				}
			}
		}
		return n
	}
	for stopped() < 2 {
		if t.Context().Err() != nil {
			t.Fatal("the leases are not stopped")
		}
	}
	code, out, errOut := a.run("leases", "ls")
	if code != exitOK || strings.Count(out, "live, stopped") != 2 || !strings.Contains(out, "lease 0 is stopped since ") || !strings.Contains(out, `no column "colour"`) {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
	if code, out, errOut := a.run("lag"); code != exitOK || strings.Count(out, "its handler has stopped it") != 2 || !strings.Contains(out, "2 leases stopped by the handler") {
		t.Errorf("lag: status %d: %s%s", code, out, errOut)
	}
	if code, out, errOut := a.run("leases", "resume", "0", "--dry-run"); code != exitOK || !strings.Contains(out, "would resume lease 0, stopped since ") || stopped() != 2 {
		t.Errorf("dry run: status %d: %s%s", code, out, errOut)
	}
	mended.Store(true)
	if code, out, errOut := a.run("leases", "resume", "0"); code != exitOK || !strings.Contains(out, "lease 0 is resumed; host-1 goes on at its next write") {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
	if b := <-handled; b.LeaseToken != "0" || b.Attempt != 2 {
		t.Errorf("lease %s, attempt %d", b.LeaseToken, b.Attempt)
	}
	if n := stopped(); n != 1 {
		t.Errorf("%d leases are stopped", n)
	}
	stop() // the other lease stays stopped while nobody owns it
	if code, out, errOut := a.run("leases", "resume", "--all"); code != exitOK || !strings.Contains(out, "lease 1 is resumed; its next owner goes on") || strings.Contains(out, "lease 0") {
		t.Errorf("without an owner: status %d: %s%s", code, out, errOut)
	}
	if code, out, errOut := a.run("leases", "resume", "1"); code != exitOK || out != "lease 1 is not stopped\n" {
		t.Errorf("again: status %d: %s%s", code, out, errOut)
	}
	defer a.handling(func(_ context.Context, b *changefeed.Batch) error { handled <- b; return nil })()
	for b := range handled {
		if b.LeaseToken == "1" {
			break
		}
	}
}

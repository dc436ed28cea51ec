package engine

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// machine simulates the wall clock and the monotonic clock of a machine. Tests advance
// both with pass.
type machine struct {
	mu  sync.Mutex // guards now
	now reading
}

func (m *machine) read() reading {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// pass advances the wall clock by wall and the monotonic clock by elapsed. A negative
// wall sets the wall clock back.
func (m *machine) pass(wall, elapsed time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now = reading{m.now.wall.Add(wall), m.now.elapsed + elapsed}
}

func TestClockCatchesUpWithTheWallClockAndNeverGoesBack(t *testing.T) {
	boot := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	m := &machine{now: reading{wall: boot, elapsed: time.Minute}}
	c := newClockOf(m.read, 0, slog.New(slog.DiscardHandler))
	for _, step := range []struct {
		what          string
		wall, elapsed time.Duration
		want          time.Duration // the store's time since boot
	}{
		{"at the start", 0, 0, 0},
		{"time passes", time.Hour, time.Hour, time.Hour},
		{"the clocks differ by little", 900 * time.Millisecond, 0, time.Hour},
		{"the machine was suspended", 20 * time.Minute, 0, time.Hour + 20*time.Minute + 900*time.Millisecond},
		{"time passes", time.Minute, time.Minute, time.Hour + 21*time.Minute + 900*time.Millisecond},
		{"the wall clock is set back", -2 * time.Hour, 0, time.Hour + 21*time.Minute + 900*time.Millisecond},
		{"time passes", time.Minute, time.Minute, time.Hour + 22*time.Minute + 900*time.Millisecond},
		{"suspended, and still set back", time.Hour, 0, time.Hour + 22*time.Minute + 900*time.Millisecond},
		{"suspended once more", 3 * time.Hour, 0, 3*time.Hour + 22*time.Minute + 900*time.Millisecond},
	} {
		m.pass(step.wall, step.elapsed)
		if got := c.now().Sub(boot); got != step.want {
			t.Errorf("%s: %s since boot, want %s", step.what, got, step.want)
		}
	}
	// If the last write of a store is later than the wall clock, the store's clock starts
	// at the time of that write.
	if ahead := newClockOf(m.read, boot.Add(24*time.Hour).Unix(), slog.New(slog.DiscardHandler)); ahead.now().Sub(boot) != 24*time.Hour {
		t.Errorf("the clock of a store that is ahead of the wall clock starts at %s", ahead.now())
	}
}

// A wall clock that is wrong for a second leaves its time in every later _ts, and items
// with a time to live expire. So a large jump is logged once when it happens, and its
// consequence at each start.
func TestWrongWallClockIsLogged(t *testing.T) {
	boot := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	const year = 365 * 24 * time.Hour
	for _, c := range []struct {
		what        string
		last        time.Duration // from the boot to the last write; 0 if there is none
		ahead       time.Duration // the jump of the wall clock, which is then set back
		start, jump string        // what is logged at the start and at the jump
	}{
		{"new store, short suspend", 0, 50 * time.Minute, "", ""},
		{"ahead for a second", -time.Hour, 10 * year, "", "by=87600h0m0s"},
		{"suspended for a night", -time.Hour, 10 * time.Hour, "", "by=10h0m0s"},
		{"was ahead for a second", 10 * year, 0, "ahead=87600h0m0s", ""},
		{"was ahead, and the wall clock is set back further", 2 * time.Minute, 0, "ahead=2m0s", ""},
		{"clocks that differ by little", 2 * time.Second, 0, "", ""},
		{"last used a week ago", -7 * 24 * time.Hour, 0, "", ""},
		{"last used ten years ago, perhaps", -10 * year, 0, "last write was long before", ""},
	} {
		var log bytes.Buffer
		m := &machine{now: reading{wall: boot}}
		last := boot.Add(c.last).Unix()
		if c.last == 0 {
			last = 0
		}
		clock := newClockOf(m.read, last, slog.New(slog.NewTextHandler(&log, nil)))
		wantLog(t, c.what+", at the start", &log, c.start)
		for range 2 {
			m.pass(c.ahead, 0)
			clock.now()
			m.pass(-c.ahead, 0)
			clock.now()
		}
		wantLog(t, c.what+", at the jump", &log, c.jump)
	}
}

// wantLog checks that the log has one line with want, or none if want is empty. It then
// empties the log.
func wantLog(t *testing.T, what string, log *bytes.Buffer, want string) {
	t.Helper()
	lines := strings.Count(log.String(), "\n")
	if want == "" && lines > 0 || want != "" && (lines != 1 || !strings.Contains(log.String(), want)) {
		t.Errorf("%s: the log is %q, want a line with %q", what, log, want)
	}
	log.Reset()
}

func TestClockIsMonotonicForConcurrentReaders(t *testing.T) {
	m := &machine{now: reading{wall: time.Unix(1_000_000, 0)}}
	c := newClockOf(m.read, 0, slog.New(slog.DiscardHandler))
	var readers sync.WaitGroup
	for range 4 {
		readers.Go(func() {
			last := c.now()
			for range 5000 {
				now := c.now()
				if now.Before(last) {
					t.Errorf("the clock returned %s after %s", now, last)
					return
				}
				last = now
				m.pass(3*time.Second, time.Millisecond)
				m.pass(-time.Second, 0)
			}
		})
	}
	readers.Wait()
}

// After a suspended machine wakes up, the times of new writes and the expiry of items
// must follow the wall clock.
func TestStoreFollowsTheWallClockAfterASuspend(t *testing.T) {
	db := openPebble(t, Options{PurgeInterval: -1})
	m := &machine{now: systemClock()()}
	if err := db.do(context.Background(), func(*group) error { db.clock = newClockOf(m.read, 0, slog.New(slog.DiscardHandler)); return nil }); err != nil {
		t.Fatal(err)
	}
	c := newContainer(t, db, storetype.ContainerProperties{DefaultTTL: 600})
	first := upsert(t, c, "a", "p", 1)
	m.pass(time.Hour, 0)
	if _, err := c.Read(t.Context(), feed.PartitionKey{"p"}, "a", storetype.ReadOptions{}); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("an item that expired meanwhile: %v", err)
	}
	if second := upsert(t, c, "b", "p", 1); second.Modified.Sub(first.Modified) != time.Hour || db.Now().Before(second.Modified) {
		t.Errorf("written at %s and an hour later at %s; the clock is at %s", first.Modified, second.Modified, db.Now())
	}
}

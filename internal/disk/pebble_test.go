package disk

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// A log without keys makes no table when it is flushed. Pebble reports the flush as an
// error. The store must open and accept writes all the same.
func TestLogWithoutATableIsOpened(t *testing.T) {
	mem := vfs.NewCrashableMem()
	p, err := pebble.Open("db", &pebble.Options{FS: mem})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.LogData([]byte("k"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	killed := mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rand.New(rand.NewPCG(1, 2))})
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	c := NewConfig(4<<20, 0, slog.New(slog.DiscardHandler), func([]byte) (policy pebble.SpanPolicy, end []byte, err error) { return policy, nil, nil })
	defer c.Release()
	e, err := (&Directory{FS: killed, Path: "db"}).Open(c, false, func(*Pebble) {})
	if err != nil {
		t.Fatal(err)
	}
	if e.lastFlush == nil || e.Refusal() != nil {
		t.Errorf("the flush ended with %v; writes are refused with %v", e.lastFlush, e.Refusal())
	}
	if err := e.End(); err != nil {
		t.Error(err)
	}
}

// On a full disk, Pebble retries a flush without pause and reports each failure. The
// store must log at most one failure a second, with the number of failures that it
// omitted.
func TestFailuresThatRepeatAreLoggedOnceASecond(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		failed := (&repeats{logger: slog.New(slog.NewTextHandler(&log, nil))}).background
		for n := range 3000 {
			failed(fmt.Errorf("failure %d", n))
			time.Sleep(time.Millisecond)
		}
		if lines := strings.Count(log.String(), "\n"); lines != 3 {
			t.Errorf("%d lines in 3 s:\n%.1000s", lines, &log)
		}
		if !strings.Contains(log.String(), "failure 0") || !strings.Contains(log.String(), "999") {
			t.Errorf("the log lacks the first failure or the number of omitted ones:\n%s", &log)
		}
	})
}

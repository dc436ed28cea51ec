package engine_test

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// namedRoom returns the room in bytes that an error of a full disk asks for, and the room
// that it says is free.
func namedRoom(t *testing.T, err error) (need, free int64) {
	t.Helper()
	_, rest, ok := strings.Cut(err.Error(), " may need ")
	if !ok {
		t.Fatalf("the error names no room: %v", err)
	}
	_, freeText, _ := strings.Cut(rest, "and ")
	if _, err := fmt.Sscanf(rest, "%d KiB", &need); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscanf(freeText, "%d KiB are free", &free); err != nil {
		t.Fatal(err)
	}
	return need << 10, free << 10
}

// A refused write names the room that writes need. When there is so much room, they must
// resume without another opening of the store. It makes no difference if the room comes in
// steps: what an attempt with too little room writes must not take the room of the next
// one.
func TestWritesResumeWithTheRoomThatTheirRefusalNames(t *testing.T) {
	for _, steps := range []int64{1, 5} {
		for room := int64(500 << 10); room < 6<<20; room += 797_123 {
			t.Run(fmt.Sprintf("room=%d/steps=%d", room, steps), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { freeRoom(t, room, steps) })
			})
		}
	}
}

func freeRoom(t *testing.T, room, steps int64) {
	disk := newSmallDisk(room)
	l := newDiskLoad(t, disk)
	for l.write() == nil {
	}
	time.Sleep(time.Minute)
	need, free := int64(0), int64(0)
	if err := l.write(); err != nil {
		need, free = namedRoom(t, err)
	}
	for range steps {
		disk.room.Add(max(0, need-free) / steps)
		time.Sleep(time.Minute)
	}
	if err := l.write(); err != nil {
		t.Errorf("a write with the %d bytes of room that were named: %v", need, err)
	}
	l.verify("after room was freed")
	if err := errors.Join(l.db.Check(t.Context()), l.db.Close()); err != nil {
		t.Error(err)
	}
}

// The disk refuses a file after an attempt to reopen the store has written its tables: the
// witness of the new manifest, or the options, when that manifest is already the current
// one. In the first case the next attempt needs the room of these tables, so they must be
// deleted. In the second case they hold the data.
func TestFailedAttemptsToReopenLeaveRoomAndLoseNothing(t *testing.T) {
	for name, isRefused := range map[string]func(op fileOp) bool{
		"witness": func(op fileOp) bool { return op.kind == "dir" && strings.Contains(op.name, "EDITS-") },
		"options": func(op fileOp) bool { return op.kind == "sync" && strings.HasSuffix(op.name, ".dbtmp") },
	} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { failReopening(t, isRefused) }) })
	}
}

func failReopening(t *testing.T, isRefused func(op fileOp) bool) {
	var failing atomic.Bool
	var refused atomic.Int64
	disk := newSmallDisk(3 << 20)
	l := newDiskLoad(t, &hookFS{FS: disk, refuse: func(op fileOp) error {
		if failing.Load() && isRefused(op) {
			refused.Add(1)
			return syscall.ENOSPC
		}
		return nil
	}})
	for l.write() == nil {
	}
	time.Sleep(time.Minute)
	need, free := namedRoom(t, l.write())
	failing.Store(true)
	disk.room.Add(need - free)
	time.Sleep(time.Minute)
	// A full disk may have refused tables only, which are retried without another opening.
	// Which of them comes first is up to Pebble's goroutines.
	if err := l.write(); (err == nil) != (refused.Load() == 0) {
		t.Errorf("the disk has refused %d files, and a write returned %v", refused.Load(), err)
	}
	failing.Store(false)
	time.Sleep(time.Minute)
	if err := l.write(); err != nil {
		t.Errorf("a write when the disk accepts all files: %v", err)
	}
	l.verify("after the attempts")
	if err := errors.Join(l.db.Check(t.Context()), l.db.Close()); err != nil {
		t.Error(err)
	}
}

package feed_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

func TestPositionIsReadableAndComplete(t *testing.T) {
	s := newFake("40")
	s.write("10", "a")
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	r := newReader(t, s, feed.ReaderConfig{Start: feed.At(at), Key: feed.PartitionKey{"a"}, Range: feed.Full()})
	text, err := r.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want := `{"version":1,"rid":"AAAAAAAA=","mode":"latest version","key":["a"],"range":{"min":"","max":"FF"},` +
		`"cursors":[{"min":"","max":"FF","start":"2026-11-21T12:00:00Z"}]}`
	if text != want {
		t.Errorf("position before the first read:\n%s\nwant\n%s", text, want)
	}
	r = newReader(t, s, feed.ReaderConfig{Start: feed.Beginning()})
	next(t, r)
	text, err = r.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want = `{"version":1,"rid":"AAAAAAAA=","mode":"latest version","range":{"min":"","max":"FF"},` +
		`"cursors":[{"min":"","max":"40","continuation":"\"1\""},{"min":"40","max":"FF","start":"beginning"}]}`
	if text != want {
		t.Errorf("position after one read of two:\n%s\nwant\n%s", text, want)
	}
}

func TestPositionFixesNowBeforeTheFirstRead(t *testing.T) {
	s := newFake("40")
	s.write("10", "before")
	text, err := newReader(t, s, feed.ReaderConfig{}).Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.write("10", "after")
	if got := readAll(t, newReader(t, s, feed.ReaderConfig{Position: text})); got != "after" {
		t.Errorf("from the position of now read [%s]; want after", got)
	}
}

func TestPositionIsAfterTheReturnedPages(t *testing.T) {
	s := newFake("40")
	for _, id := range []string{"a1", "a2", "a3"} {
		s.write("10", id)
		s.write("50", "b"+id[1:])
	}
	for reads := range 6 {
		r := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning(), MaxItems: 1})
		var before []string
		for range reads {
			before = append(before, next(t, r))
		}
		text, err := r.Position(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		rest := readAll(t, newReader(t, s, feed.ReaderConfig{Position: text, MaxItems: 1}))
		all := append(before, strings.Fields(rest)...)
		if len(all) != 6 {
			t.Errorf("after %d reads and a resume: %v; want each of the six changes once", reads, all)
		}
		for _, id := range before {
			if strings.Contains(rest, id) {
				t.Errorf("the resumed reader returned %s again", id)
			}
		}
	}
}

func TestPositionOfAnotherContainerIsRefusedEveryTime(t *testing.T) {
	s := newFake()
	text, err := newReader(t, s, feed.ReaderConfig{}).Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.identity.ContainerRID = "BBBBBBBB="
	s.requests = nil
	r := newReader(t, s, feed.ReaderConfig{Position: text})
	for range 2 {
		var refused *feed.PositionError
		if _, _, err := r.Next(t.Context()); !errors.As(err, &refused) || refused.Made != "AAAAAAAA=" || refused.Read != "BBBBBBBB=" {
			t.Fatalf("next: %v; want *PositionError", err)
		}
		if _, err := r.Position(t.Context()); !errors.As(err, &refused) {
			t.Fatalf("position: %v; want *PositionError", err)
		}
	}
	if len(s.requests) > 0 {
		t.Error("another container was read")
	}
}

func TestMalformedPositionIsRefused(t *testing.T) {
	const head = `{"version":1,"rid":"r","mode":"latest version","range":{"min":"","max":"FF"},"cursors":`
	for _, c := range []struct{ text, why string }{
		{`x`, "not a reader's position"},
		{`null`, "version 0"},
		{`{"version":2}`, "version 2"},
		{`{"version":1}`, "no container"},
		{strings.Replace(head, "latest version", "newest", 1) + `[]}`, "mode"},
		{head + `[]}`, "no cursor"},
		{head + `[{"min":"","max":"FF","continuation":"1"}]} {}`, "follows"},
		{head + `[{"min":"","max":"FF"}]}`, "neither"},
		{head + `[{"min":"","max":"FF","continuation":"1","start":"beginning"}]}`, "neither"},
		{head + `[{"min":"","max":"FF","start":"yesterday"}]}`, "yesterday"},
		{head + `[{"min":"","max":"40","continuation":"1"}]}`, "tile"},
		{head + `[{"min":"40","max":"FF","continuation":"1"}]}`, "tile"},
		{head + `[{"min":"","max":"60","continuation":"1"},{"min":"40","max":"FF","continuation":"1"}]}`, "tile"},
		{head + `[{"min":"","max":"","continuation":"1"},{"min":"","max":"FF","continuation":"1"}]}`, "tile"},
		{strings.Replace(head, `"range"`, `"key":["a"],"range"`, 1) +
			`[{"min":"10","max":"60","continuation":"1"},{"min":"40","max":"50","continuation":"1"}]}`, "tile"},
		{strings.Replace(head, `"range"`, `"key":7,"range"`, 1) + `[{"min":"","max":"FF","continuation":"1"}]}`, "partition key"},
	} {
		if _, err := feed.NewReader(newFake(), feed.ReaderConfig{Position: c.text}); err == nil || !strings.Contains(err.Error(), c.why) {
			t.Errorf("position %s: %v; want an error about %q", c.text, err, c.why)
		}
	}
}

func TestPositionOfAnotherRangeKeyOrModeIsRefused(t *testing.T) {
	s := newFake()
	r := newReader(t, s, feed.ReaderConfig{
		Range: feed.Range{Min: "10", Max: "20"}, Key: feed.PartitionKey{"a"}, Start: feed.Beginning(), Mode: feed.AllVersionsAndDeletes,
	})
	text, err := r.Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	same := newReader(t, s, feed.ReaderConfig{
		Position: text, Range: feed.Range{Min: "10", Max: "20"}, Key: feed.PartitionKey{"a"}, Mode: feed.AllVersionsAndDeletes,
	})
	if again, err := same.Position(t.Context()); err != nil || again != text {
		t.Errorf("the position was parsed and rewritten as %s, %v; want %s", again, err, text)
	}
	next(t, newReader(t, s, feed.ReaderConfig{Position: text}))
	if req := s.requests[len(s.requests)-1]; req.Mode != feed.AllVersionsAndDeletes || req.Key.String() != `["a"]` || req.Range.Min != "10" {
		t.Errorf("the resumed reader requests %+v", req)
	}
	for what, cfg := range map[string]feed.ReaderConfig{
		"range": {Position: text, Range: feed.Range{Min: "10", Max: "30"}},
		"key":   {Position: text, Key: feed.PartitionKey{"b"}},
	} {
		if _, err := feed.NewReader(s, cfg); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("another %s: %v", what, err)
		}
	}
	plain, err := newReader(t, s, feed.ReaderConfig{Start: feed.Beginning()}).Position(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := feed.NewReader(s, feed.ReaderConfig{Position: plain, Mode: feed.AllVersionsAndDeletes}); err == nil {
		t.Error("a latest version position was accepted for all versions and deletes")
	}
}

// RFC 3339 has no form for a time whose year in UTC is not 0 to 9999. A reader that
// starts at such a time must return a position that NewReader accepts.
func TestPositionOfATimeOutsideTheCalendarRoundTrips(t *testing.T) {
	for _, at := range []time.Time{
		time.Date(0, 1, 1, 0, 0, 0, 0, time.FixedZone("", 3600)),
		time.Date(9999, 12, 31, 23, 0, 0, 0, time.FixedZone("", -3*3600)),
	} {
		s := newFake()
		first, err := newReader(t, s, feed.ReaderConfig{Start: feed.At(at)}).Position(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		second, err := newReader(t, s, feed.ReaderConfig{Position: first}).Position(t.Context())
		if err != nil || second != first {
			t.Errorf("the position of a start at %s was rewritten as %s, %v; want %s", at, second, err, first)
		}
	}
}

// FuzzPosition passes texts to NewReader as a position. It must refuse the text, or
// return a reader whose own position stays the same when it is restored again.
func FuzzPosition(f *testing.F) {
	f.Add(`{"version":1,"rid":"AAAAAAAA=","mode":"latest version","range":{"min":"","max":"FF"},"cursors":[{"min":"","max":"FF","start":"beginning"}]}`)
	f.Add(`{"version":1,"rid":"AAAAAAAA=","mode":"all versions and deletes","key":["a",{}],"range":{"min":"10","max":"FF"},"cursors":[{"min":"10","max":"20","continuation":"\"1\""},{"min":"30","max":"FF","start":"2026-11-21T12:00:00+01:00"}]}`)
	f.Add(`{"version":1`)
	f.Fuzz(func(t *testing.T, text string) {
		s := newFake()
		r, err := feed.NewReader(s, feed.ReaderConfig{Position: text})
		if err != nil {
			return
		}
		first, err := r.Position(t.Context())
		if err != nil {
			return // the position belongs to another container, or no partition holds its range
		}
		again, err := feed.NewReader(s, feed.ReaderConfig{Position: first})
		if err != nil {
			t.Fatalf("%q was accepted, but its rewritten position is refused: %v", text, err)
		}
		second, err := again.Position(t.Context())
		if err != nil || second != first {
			t.Errorf("%q was rewritten as %s and then as %s, %v", text, first, second, err)
		}
	})
}

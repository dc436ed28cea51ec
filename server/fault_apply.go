package server

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// maxBufferedBody bounds the body of a request that is held: it is read first, because the end of its
// connection is noticed only behind it.
const maxBufferedBody = 16 << 20

// meet carries out an operation, unless something is in its way: a frozen
// partition first, and then a fault.
func (s *Server) applyFaults(x *request, serve func(*request) error) error {
	if s.freezes.none() && len(s.faults.active()) == 0 {
		return serve(x)
	}
	t := &target{x: x}
	if err := s.freezes.wait(x, t); err != nil {
		return err
	}
	f := s.faults.choose(x, t)
	if f == nil {
		return serve(x)
	}
	if f.After {
		unseen := *x
		unseen.w = &discardWriter{header: http.Header{}}
		_ = serve(&unseen) // whatever came of it, nobody is told
	}
	if f.Delay > 0 {
		if err := x.bufferBody(); err != nil {
			return err
		}
		if err := s.delay(x, f.Delay); err != nil {
			return err
		}
	}
	switch {
	case f.Drop:
		s.o.Logger.DebugContext(x.r.Context(), "connection dropped by a fault", "fault", f.id, "operation", x.op,
			"activity", x.activity, "carried out", f.After)
		panic(http.ErrAbortHandler) // what net/http has for it
	case f.Status != 0:
		message := f.Message
		if message == "" {
			message = "This failure was injected, by fault " + f.id + "."
		}
		return &statusError{status: f.Status, substatus: f.SubStatus, message: message, retryAfter: f.RetryAfter}
	}
	return serve(x)
}

// hold makes a request ready to wait: its body is read, so that the client's leaving is noticed.
func (x *request) bufferBody() error {
	if x.r.ContentLength == 0 {
		return nil
	}
	body, err := x.body(maxBufferedBody)
	if err != nil {
		return err
	}
	x.r.Body = io.NopCloser(bytes.NewReader(body))
	x.r.ContentLength = int64(len(body))
	return nil
}

// pause waits; for the client to leave, or the server to end, at most.
func (s *Server) delay(x *request, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-x.r.Context().Done():
		return x.r.Context().Err()
	case <-s.draining:
		return errEnding
	}
}

// errEnding is what a request is answered with that is held when the server ends.
var errEnding = failure(http.StatusServiceUnavailable, wire.SubNone, "the server is ending")

// discardWriter takes an answer that nobody gets.
type discardWriter struct{ header http.Header }

func (w *discardWriter) Header() http.Header         { return w.header }
func (w *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *discardWriter) WriteHeader(int)             {}

// target is what a request addresses, for faults and frozen partitions: found out when
// one of them asks, since most requests meet neither.
type target struct {
	x *request

	looked bool
	c      *engine.Container // nil: the request is of no container that is there
	live   []feed.Partition
	keys   feed.Range
}

// container is the container of the request; nil: it has none.
func (t *target) container() *engine.Container {
	t.look()
	return t.c
}

// look resolves the request's container and range. What is wrong with a request is for its operation to
// say, so here it only narrows nothing.
func (t *target) look() {
	if t.looked {
		return
	}
	t.looked, t.keys = true, feed.Full()
	if len(t.x.path.IDs) < 2 || t.x.path.Types[0] != "dbs" || t.x.path.Types[1] != "colls" {
		return
	}
	c, err := t.x.container()
	if err != nil {
		return
	}
	if t.live, err = c.Partitions(t.x.r.Context()); err != nil {
		return
	}
	t.c = c
	// Only documents have keys. Who asks for the container, its partitions or the plan of a query is
	// answered without looking at one.
	if len(t.x.path.Types) < 3 || t.x.path.Types[2] != "docs" || isPlan(t.x) {
		t.keys = noKeys
		return
	}
	s, err := t.x.selection(c)
	if err != nil {
		return
	}
	if s.partition != "" {
		// A partition that is gone has no keys: such a request is answered with 410 and held by nobody.
		t.keys = t.partition(s.partition)
	}
	if !s.keys.IsZero() {
		t.keys = t.keys.Intersect(s.keys)
	}
	if len(s.key) > 0 {
		if keys, err := c.KeyRange(s.key); err == nil {
			t.keys = t.keys.Intersect(keys)
		}
	}
}

// partition is the range of a live partition; empty: there is none of that ID.
func (t *target) partition(id string) feed.Range {
	for _, p := range t.live {
		if p.ID == id {
			return p.Range
		}
	}
	return noKeys
}

// noKeys is a range without keys, which overlaps none.
var noKeys = feed.Range{Min: feed.MaxEPK, Max: feed.MaxEPK}

func (t *target) inDatabase(name string) bool {
	if len(t.x.path.IDs) == 0 || t.x.path.Types[0] != "dbs" {
		return false
	}
	if t.x.path.IDs[0] == name {
		return true
	}
	d, err := t.x.database()
	return err == nil && (d.ID == name || d.RID == name)
}

func (t *target) inContainer(name string) bool {
	c := t.container()
	if c == nil {
		return false
	}
	id := c.Identity()
	return id.Container == name || id.ContainerRID == name
}

// inPartition reports whether the request addresses a key of a live partition.
func (t *target) inPartition(id string) bool {
	return t.container() != nil && t.inRange(t.partition(id))
}

func (t *target) inRange(r feed.Range) bool {
	return t.container() != nil && !r.IsEmpty() && t.keys.Overlaps(r)
}

// hasKey reports whether the request's header names a key. Numbers are compared as such: 0 and -0.0 are one.
func (t *target) hasKey(key feed.PartitionKey) bool {
	have, err := t.x.partitionKey()
	return err == nil && have != nil && slices.Equal(have, key)
}

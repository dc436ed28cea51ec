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

// maxBufferedBody limits the body of a delayed request, in bytes. The body is read before
// the delay, because net/http notices the end of a connection only after the body.
const maxBufferedBody = 16 << 20

// applyFaults carries out an operation. It first waits while the operation's partition is
// frozen, and then applies the fault of the request, if there is one.
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
		_ = serve(&unseen) // the client receives the failure instead
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
		panic(http.ErrAbortHandler) // net/http closes the connection
	case f.Status != 0:
		message := f.Message
		if message == "" {
			message = "This failure was injected, by fault " + f.id + "."
		}
		return &statusError{status: f.Status, substatus: f.SubStatus, message: message, retryAfter: f.RetryAfter}
	}
	return serve(x)
}

// bufferBody reads the body of a request before a delay, so that net/http notices when
// the client disconnects.
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

// delay waits for the time d. It returns an error if the client disconnects or the server
// shuts down first.
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

// errEnding is the answer to a request that is delayed when the server shuts down.
var errEnding = failure(http.StatusServiceUnavailable, wire.SubNone, "the server is shutting down")

// discardWriter is a ResponseWriter that discards the answer.
type discardWriter struct{ header http.Header }

func (w *discardWriter) Header() http.Header         { return w.header }
func (w *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *discardWriter) WriteHeader(int)             {}

// target holds the container and the keys that a request addresses, for faults and frozen
// partitions. It is resolved on first use, since most requests meet neither.
type target struct {
	x *request

	looked bool
	c      *engine.Container // nil if the request addresses no existing container
	live   []feed.Partition
	keys   feed.Range
}

// container returns the container of the request, or nil.
func (t *target) container() *engine.Container {
	t.look()
	return t.c
}

// look resolves the container and the range of the request. It ignores errors, because
// the operation reports them.
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
	// Only documents have keys. A request for the container, its partitions or the plan
	// of a query addresses no key.
	if len(t.x.path.Types) < 3 || t.x.path.Types[2] != "docs" || isPlan(t.x) {
		t.keys = noKeys
		return
	}
	s, err := t.x.selection(c)
	if err != nil {
		return
	}
	if s.partition != "" {
		// A partition that no longer exists has no keys. Such a request is not delayed,
		// and the operation answers 410.
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

// partition returns the range of a live partition. It returns an empty range if there is
// no partition with that ID.
func (t *target) partition(id string) feed.Range {
	for _, p := range t.live {
		if p.ID == id {
			return p.Range
		}
	}
	return noKeys
}

// noKeys is a range without keys. It overlaps no range.
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

// hasKey reports whether the header of the request has the given key. Numbers are
// compared by value: 0 equals -0.0.
func (t *target) hasKey(key feed.PartitionKey) bool {
	have, err := t.x.partitionKey()
	return err == nil && have != nil && slices.Equal(have, key)
}

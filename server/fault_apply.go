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

// maxBufferedBody limits the body of a delayed request, in bytes. net/http notices a
// closed connection only after the body was read. So the body is read into memory before
// the delay.
const maxBufferedBody = 16 << 20

// applyFaults calls serve for a request. Before that, it waits while a partition of the
// request is frozen, and applies the fault that selects the request, if any.
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
		_ = serve(&unseen) // this answer is dropped, because the client receives the failure
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
		panic(http.ErrAbortHandler) // makes net/http close the connection
	case f.Status != 0:
		message := f.Message
		if message == "" {
			message = "This failure was injected, by fault " + f.id + "."
		}
		return &statusError{status: f.Status, substatus: f.SubStatus, message: message, retryAfter: f.RetryAfter}
	}
	return serve(x)
}

// bufferBody reads the body of a request into memory. Only then does net/http notice
// during a delay that the client has disconnected.
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

// delay waits for d. It returns an error if the client disconnects or Server.Drain is
// called before that.
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

// errEnding is the answer to a delayed request when Server.Drain is called.
var errEnding = failure(http.StatusServiceUnavailable, wire.SubNone, "the server is shutting down")

// discardWriter is an http.ResponseWriter that drops the answer.
type discardWriter struct{ header http.Header }

func (w *discardWriter) Header() http.Header         { return w.header }
func (w *discardWriter) Write(p []byte) (int, error) { return len(p), nil }
func (w *discardWriter) WriteHeader(int)             {}

// target holds the container and the range of keys that a request addresses. Faults and
// frozen partitions are compared with it. Most requests are not compared with any, so it
// is computed on first use.
type target struct {
	x *request

	looked bool
	c      *engine.Container // nil if the request addresses no container, or a missing one
	live   []feed.Partition
	keys   feed.Range
}

// container returns the container that the request addresses, or nil.
func (t *target) container() *engine.Container {
	t.look()
	return t.c
}

// look computes the container and the range of keys, once. It ignores errors, because the
// operation of the request finds them, too.
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
	// Only documents have partition keys. A request for the container, for its partitions
	// or for a query plan addresses no key.
	if len(t.x.path.Types) < 3 || t.x.path.Types[2] != "docs" || isPlan(t.x) {
		t.keys = noKeys
		return
	}
	s, err := t.x.selection(c)
	if err != nil {
		return
	}
	if s.partition != "" {
		// If the partition was split or merged, the range is empty. Then no freeze delays
		// the request, and the operation answers 410.
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

// partition returns the key range of the live partition with this ID. If there is none,
// it returns a range without keys.
func (t *target) partition(id string) feed.Range {
	for _, p := range t.live {
		if p.ID == id {
			return p.Range
		}
	}
	return noKeys
}

// noKeys is an empty range of keys, which overlaps no other range.
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

// inPartition reports whether the request addresses any key of the live partition with
// this ID.
func (t *target) inPartition(id string) bool {
	return t.container() != nil && t.inRange(t.partition(id))
}

func (t *target) inRange(r feed.Range) bool {
	return t.container() != nil && !r.IsEmpty() && t.keys.Overlaps(r)
}

// hasKey reports whether the partition key in the header of the request equals key.
// Numbers are compared by value, so 0 equals -0.0.
func (t *target) hasKey(key feed.PartitionKey) bool {
	have, err := t.x.partitionKey()
	return err == nil && have != nil && slices.Equal(have, key)
}

package server

import (
	"errors"
	"net/http"
	"sync"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/jsonscan"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// This file serves requests for one document: POST docs (create, upsert), and GET, PUT
// and DELETE docs/<id>.
//
// Supported: the partition key from its header, or (create, upsert, replace) from the
// document; If-Match and If-None-Match; Prefer: return=minimal. A container that is
// addressed by rid may have its documents addressed by rid, too. A document without an ID
// is refused, as in the service. SDKs that generate IDs do so themselves. Requests with
// triggers are refused. x-ms-indexing-directive and x-ms-consistency-level have no
// effect, since there is no index and every answer is strongly consistent.
//
// The session token of a request is ignored. There is one replica, which always answers
// from its newest state. A token ahead of it comes from before a restore of the data
// directory. If the server refused such a token, the client would only retry until it
// gives up.

// maxDocumentBody limits the body of a request with a document, in bytes. The store
// refuses documents over its own limit with its own message. A longer body is not read to
// its end.
const maxDocumentBody = engine.MaxDocumentSize + 64<<10

// documentBodies is a pool of memory for the bodies of requests with documents. The store
// keeps no part of a body after the call that writes it.
var documentBodies = sync.Pool{New: func() any { return new(documentBody) }}

// documentBody is the memory for the body of one request.
type documentBody struct{ text []byte }

// keptBody is the size of the largest documentBody that is reused, in bytes.
const keptBody = 64 << 10

// readDocumentBody reads the body of a request with a document. The caller must call
// release, also after an error.
func (x *request) readDocumentBody() (*documentBody, error) {
	b := documentBodies.Get().(*documentBody) //nolint:errcheck // the pool holds nothing else
	var err error
	b.text, err = x.bodyIn(b.text, maxDocumentBody)
	return b, err
}

// release returns the memory to the pool.
func (b *documentBody) release() {
	if cap(b.text) <= keptBody {
		documentBodies.Put(b)
	}
}

// postDocument creates or upserts a document.
func (s *Server) postDocument(x *request) error {
	c, key, err := x.documentWrite()
	if err != nil {
		return err
	}
	body, err := x.readDocumentBody()
	defer body.release()
	if err != nil {
		return err
	}
	write := c.Create
	if isUpsert(x) {
		write = c.Upsert
	}
	r, err := write(x.r.Context(), key, body.text, x.writeOptions())
	return x.sendWritten(r, err)
}

// idOf returns the ID of a document. It returns "" if the document has no ID, or one that
// is not a string.
func idOf(body []byte) string {
	s := jsonscan.New(body, engine.MaxDepth)
	for more, err := s.Object(1); more && err == nil; more, err = s.Next('}') {
		name, err := s.Name()
		if err != nil {
			return ""
		}
		if name.Is("id") {
			id, err := s.Text()
			if err != nil {
				return ""
			}
			return id.String()
		}
		if err := s.Value(2); err != nil {
			return ""
		}
	}
	return ""
}

func (s *Server) readDocument(x *request) error {
	c, key, err := x.documentKey()
	if err != nil {
		return err
	}
	// If-Match is a condition of writes, so reads ignore it. Java's change feed processor
	// sends it with the read by which it finds the new owner of a lease. If that read
	// failed with 412, the processor would lose the lease.
	o := engine.ReadOptions{IfNoneMatch: x.header("If-None-Match")}
	if err := x.acquireSlot(readSlots); err != nil {
		return err
	}
	r, err := x.onDocument(c, key, func(key feed.PartitionKey, id string) (engine.Result, error) {
		return c.Read(x.r.Context(), key, id, o)
	})
	if err != nil {
		if errors.Is(err, engine.ErrNotModified) && o.IfNoneMatch != "*" {
			x.etag = o.IfNoneMatch
		}
		return x.setFailure(r, err)
	}
	x.setResult(r)
	return x.send(http.StatusOK, r.Body)
}

func (s *Server) replaceDocument(x *request) error {
	c, key, err := x.documentWrite()
	if err != nil {
		return err
	}
	body, err := x.readDocumentBody()
	defer body.release()
	if err != nil {
		return err
	}
	o := x.writeOptions()
	r, err := x.onDocument(c, key, func(key feed.PartitionKey, id string) (engine.Result, error) {
		return c.Replace(x.r.Context(), key, id, body.text, o)
	})
	return x.sendWritten(r, err)
}

func (s *Server) deleteDocument(x *request) error {
	c, key, err := x.documentKey()
	if err != nil {
		return err
	}
	o := x.writeOptions()
	r, err := x.onDocument(c, key, func(key feed.PartitionKey, id string) (engine.Result, error) {
		return c.Delete(x.r.Context(), key, id, o)
	})
	if err != nil {
		return x.setFailure(r, err)
	}
	x.setResult(r)
	return x.sendEmpty(http.StatusNoContent)
}

// documentWrite returns the container and the key of a request that writes a document.
// The key is nil if only the document has it.
func (x *request) documentWrite() (*engine.Container, feed.PartitionKey, error) {
	if x.header(wire.HeaderPreTriggers) != "" || x.header(wire.HeaderPostTriggers) != "" {
		return nil, nil, unsupported("a trigger")
	}
	c, err := x.owner()
	if err != nil {
		return nil, nil, err
	}
	key, err := x.partitionKey()
	return c, key, err
}

// documentKey is like documentWrite, for an operation without a document in its body.
func (x *request) documentKey() (*engine.Container, feed.PartitionKey, error) {
	c, key, err := x.documentWrite()
	if err == nil && key == nil && !x.byRID(c) {
		err = badRequest("The partition key must be given for this operation: send it as a JSON array in the header x-ms-documentdb-partitionkey")
	}
	return c, key, err
}

func (x *request) writeOptions() engine.WriteOptions {
	return engine.WriteOptions{IfMatch: x.header("If-Match"), IfNoneMatch: x.header("If-None-Match"), NoBody: x.minimal()}
}

// onDocument calls do for the document of the path. In a container that is addressed by
// its rid, the document may be addressed by its rid too, unless a document has that ID.
func (x *request) onDocument(c *engine.Container, key feed.PartitionKey,
	do func(key feed.PartitionKey, id string) (engine.Result, error),
) (engine.Result, error) {
	ctx, id := x.r.Context(), x.path.IDs[2]
	if !x.byRID(c) {
		return do(key, id)
	}
	if key != nil {
		if _, err := c.Read(ctx, key, id, engine.ReadOptions{}); err == nil {
			return do(key, id)
		}
	}
	found, err := c.ItemByRID(ctx, key, id)
	if err != nil {
		return engine.Result{}, err
	}
	return do(found.Key, found.ID)
}

// sendWritten answers a write of a document.
func (x *request) sendWritten(r engine.Result, err error) error {
	if err != nil {
		return x.setFailure(r, err)
	}
	x.setResult(r)
	status := http.StatusOK
	if r.Created {
		status = http.StatusCreated
	}
	if x.minimal() {
		return x.sendEmpty(status)
	}
	return x.send(status, r.Body)
}

// setFailure sets the charge and the partition of a failed operation. SDKs also use the
// session token of a 404, 409 or 412.
func (x *request) setFailure(r engine.Result, err error) error {
	x.charge += r.Charge
	x.setPartition(r.Partition, r.End)
	return err
}

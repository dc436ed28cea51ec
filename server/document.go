package server

import (
	"errors"
	"net/http"
	"sync"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/jsonscan"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// This file serves requests for one document: POST docs (create, upsert), and GET, PUT
// and DELETE docs/<id>.
//
// Supported: the partition key from its header, or none for a create by azcosmos for Go whose
// key is undefined; If-Match and If-None-Match; Prefer: return=minimal. If a container is
// addressed by its rid, its documents may be, too. A document without an ID is refused,
// as in the service, where only SDKs generate IDs. Requests with triggers are refused.
// x-ms-indexing-directive and x-ms-consistency-level have no effect, because there is no
// index and every answer is strongly consistent.
//
// The session token of a request is ignored. There is one replica, which always answers
// from its newest state. A token can be ahead of that state only after the data directory
// was restored from a backup. If the server refused such a token, the client would only
// retry until it gives up.

// maxDocumentBody limits the body of a request with a document, in bytes. It exceeds the
// store's limit of a document, so that a slightly too large document gets the store's
// error message. A longer body is not read to its end.
const maxDocumentBody = storetype.MaxDocumentSize + 64<<10

// documentBodies is a pool of buffers for the bodies of requests with documents. The
// store keeps no reference to a body after a write has returned, so a buffer can be
// reused.
var documentBodies = sync.Pool{New: func() any { return new(documentBody) }}

// documentBody is a buffer that holds the body of one request.
type documentBody struct{ text []byte }

// keptBody is the capacity of the largest buffer that returns to documentBodies, in
// bytes.
const keptBody = 64 << 10

// readDocumentBody reads the body of a request with a document. The caller must call
// release on the result, even if it returns an error.
func (x *request) readDocumentBody() (*documentBody, error) {
	b := documentBodies.Get().(*documentBody) //nolint:errcheck // the pool holds nothing else
	var err error
	b.text, err = x.bodyIn(b.text, maxDocumentBody)
	return b, err
}

// release returns the buffer to documentBodies, unless it is larger than keptBody.
func (b *documentBody) release() {
	if cap(b.text) <= keptBody {
		documentBodies.Put(b)
	}
}

// postDocument creates a document, or upserts it if the request has the upsert header.
func (s *Server) postDocument(x *request) error {
	c, key, err := x.documentKey()
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
	named := key != nil
	if !named {
		if idOf(body.text) == "" {
			return errNoKey // as of a query that is sent as application/json
		}
		key = feed.PartitionKey{feed.Undefined}
	}
	r, err := write(x.r.Context(), key, body.text, x.writeOptions())
	if bad, ok := errors.AsType[*storetype.BadRequestError](err); ok && bad.Kind == storetype.KeyMismatch && !named {
		return errNoKey
	}
	return x.sendWritten(r, err)
}

// idOf returns the ID in a document's JSON. It returns "" if the ID is missing or is not
// a string.
func idOf(body []byte) string {
	s := jsonscan.New(body, layout.MaxDepth)
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
	// The read ignores If-Match, which is a condition of writes. Java's change feed
	// processor sends If-Match when it reads a lease to find the lease's new owner. If
	// that read failed with 412, the processor would lose the lease.
	o := storetype.ReadOptions{IfNoneMatch: x.header("If-None-Match")}
	if err := x.acquireSlot(readSlots); err != nil {
		return err
	}
	r, err := x.onDocument(c, key, func(key feed.PartitionKey, id string) (storetype.Result, error) {
		return c.Read(x.r.Context(), key, id, o)
	})
	if late := x.checkSession(engine.PartitionEnd{ID: r.Partition, End: r.End}); late != nil {
		return x.setFailure(r, late)
	}
	if err != nil {
		if errors.Is(err, storetype.ErrNotModified) && o.IfNoneMatch != "*" {
			x.etag = o.IfNoneMatch
		}
		return x.setFailure(r, err)
	}
	x.setResult(r)
	return x.send(http.StatusOK, r.Body)
}

func (s *Server) replaceDocument(x *request) error {
	c, key, err := x.documentKey()
	if err != nil {
		return err
	}
	body, err := x.readDocumentBody()
	defer body.release()
	if err != nil {
		return err
	}
	o := x.writeOptions()
	r, err := x.onDocument(c, key, func(key feed.PartitionKey, id string) (storetype.Result, error) {
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
	r, err := x.onDocument(c, key, func(key feed.PartitionKey, id string) (storetype.Result, error) {
		return c.Delete(x.r.Context(), key, id, o)
	})
	if err != nil {
		return x.setFailure(r, err)
	}
	x.setResult(r)
	return x.sendEmpty(http.StatusNoContent)
}

// documentKey returns the container in the path and the partition key in the header,
// for a request that reads or writes a document. It returns an error if the request has
// triggers, or no key. A create may have none at the version of azcosmos for Go, which sends
// no header for a key whose only value is undefined; the key is nil then.
func (x *request) documentKey() (*engine.Container, feed.PartitionKey, error) {
	if x.header(wire.HeaderPreTriggers) != "" || x.header(wire.HeaderPostTriggers) != "" {
		return nil, nil, unsupported("a trigger")
	}
	c, err := x.owner()
	if err != nil {
		return nil, nil, err
	}
	key, err := x.keyIn(c)
	isFromGo := x.r.Method == http.MethodPost && x.header(wire.HeaderVersion) >= versionOfGo
	if err == nil && key == nil && !(isFromGo && len(c.KeyPaths()) == 1) {
		err = errNoKey
	}
	return c, key, err
}

// versionOfGo is the version of the REST API that azcosmos for Go uses. Other SDKs use older
// ones.
const versionOfGo = "2020-11-05"

func (x *request) writeOptions() storetype.WriteOptions {
	return storetype.WriteOptions{IfMatch: x.header("If-Match"), IfNoneMatch: x.header("If-None-Match"), NoBody: x.minimal(), ExactCharge: true}
}

// onDocument calls do for the document that the path addresses by its ID. If the
// container is addressed by its rid and has no document with this ID, the ID may be a
// document's rid.
func (x *request) onDocument(c *engine.Container, key feed.PartitionKey,
	do func(key feed.PartitionKey, id string) (storetype.Result, error),
) (storetype.Result, error) {
	ctx, id := x.r.Context(), x.path.IDs[2]
	if !x.byRID(c) {
		return do(key, id)
	}
	if _, err := c.Read(ctx, key, id, storetype.ReadOptions{}); err == nil {
		return do(key, id)
	}
	found, err := c.ItemByRID(ctx, key, id)
	if err != nil {
		return storetype.Result{}, err
	}
	return do(found.Key, found.ID)
}

// sendWritten answers a write of one document: 201 if the document was created, 200
// otherwise.
func (x *request) sendWritten(r storetype.Result, err error) error {
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

// setFailure sets the headers of an error answer: the charge, the partition and the
// session token. SDKs use the session token also of a 404, 409 or 412. It returns err.
func (x *request) setFailure(r storetype.Result, err error) error {
	x.charge += r.Charge
	x.setPartition(r.Partition, r.End)
	return err
}

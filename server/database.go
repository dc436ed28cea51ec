package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/storetype"
)

// This file serves /dbs and /dbs/<id>. Supported: create, read, list, delete. Throughput
// at creation creates an offer (see offer.go) that the containers of the database share.

// These are the charges of operations on databases, containers, users and offers, in request
// units, as recorded of the service. They do not use up any provisioned throughput. They
// only appear in the answer.
const (
	metadataReadCharge   = 2 // also of a list, and of a read of a missing resource
	metadataWriteCharge  = 1
	metadataDropCharge   = 104.0 / 21
	metadataFailedCharge = 26.0 / 21
)

// maxMetadataBody limits the body of a request that writes a database, container, offer,
// user or permission, in bytes.
const maxMetadataBody = 1 << 20

func (s *Server) createDatabase(x *request) error {
	_, id, err := x.resource()
	if err != nil {
		return err
	}
	t, err := x.throughput()
	if err != nil {
		return err
	}
	e, err := extra{Autoscale: t.autoscale}.json()
	if err != nil {
		return err
	}
	d, err := s.db.CreateDatabase(x.r.Context(), storetype.DatabaseProperties{ID: id, Throughput: t.rate, Extra: e})
	if err != nil {
		return err
	}
	return x.sendResource(http.StatusCreated, d.ETag, databaseBody(d))
}

func (s *Server) readDatabase(x *request) error {
	d, err := x.database()
	if err != nil {
		return err
	}
	return x.sendResource(http.StatusOK, d.ETag, databaseBody(d))
}

func (s *Server) deleteDatabase(x *request) error {
	d, err := x.database()
	if err != nil {
		return err
	}
	if err := x.checkIfMatch(d.ETag); err != nil {
		return err
	}
	if err := s.db.DeleteDatabase(x.r.Context(), d.ID); err != nil {
		return err
	}
	s.freezes.dropDeleted(x.r.Context())
	return x.sendDeleted()
}

// databases returns the list of all databases, sorted by name.
func (s *Server) databases(x *request) (resourceList, error) {
	l := resourceList{name: "Databases"}
	all, err := s.db.Databases(x.r.Context())
	for _, d := range all {
		l.add(d.ID, databaseBody(d))
	}
	return l, err
}

// sendResource answers with the JSON of a database, container, offer, user or permission.
// If a read has an If-None-Match that equals etag, it answers 304.
func (x *request) sendResource(status int, etag string, body []byte) error {
	x.charge, x.etag = metadataWriteCharge, etag
	if about := x.subject(); x.r.Method == http.MethodGet || about == aboutDatabase || about == aboutContainer {
		x.itemLSN = catalogLSN
	}
	if x.r.Method == http.MethodGet {
		if tag := x.header("If-None-Match"); tag == "*" || tag == etag {
			x.charge = metadataReadCharge
			return storetype.ErrNotModified
		}
		x.charge = metadataReadCharge
	}
	return x.send(status, body)
}

// sendDeleted answers 204.
func (x *request) sendDeleted() error {
	x.charge = metadataDropCharge
	return x.sendEmpty(http.StatusNoContent)
}

// databaseBody returns the JSON of a database for an answer.
func databaseBody(d storetype.DatabaseProperties) []byte {
	return object{
		{"id", jsonString(d.ID)},
		{"_rid", jsonString(d.RID)},
		{"_self", jsonString(databaseSelf(d.RID))},
		{"_etag", jsonString(d.ETag)},
		{"_colls", jsonString("colls/")},
		{"_users", jsonString("users/")},
		{"_ts", jsontext.Value(strconv.FormatInt(d.Modified.Unix(), 10))},
	}.json()
}

func databaseSelf(rid string) string { return "dbs/" + rid + "/" }

// setSystem sets the members that the JSON of every resource has: _rid, _self, _etag and
// _ts.
func (m *object) setSystem(rid, self, etag string, modified int64) {
	m.set("_rid", jsonString(rid))
	m.set("_self", jsonString(self))
	m.set("_etag", jsonString(etag))
	m.set("_ts", jsontext.Value(fmt.Sprint(modified)))
}

// resource parses the body of a request that writes a database, container, user or
// permission. It also returns the ID in it, which the store validates.
func (x *request) resource() (m object, id string, err error) {
	body, err := x.body(maxMetadataBody)
	if err != nil {
		return nil, "", err
	}
	if m, err = parseObject(body); err != nil {
		return nil, "", err
	}
	if v := m.get("id"); v == nil || json.Unmarshal(v, &id) != nil {
		return nil, "", badRequest("the resource has no id, or an id that is not a string")
	}
	return m, id, nil
}

// checkIfMatch returns an error if the request has an If-Match that differs from etag.
// The store deletes databases and containers without a condition. So a replacement
// between this check and the deletion is not noticed.
func (x *request) checkIfMatch(etag string) error {
	if tag := x.header("If-Match"); tag != "" && tag != "*" && tag != etag {
		return fmt.Errorf("If-Match: %w", storetype.ErrPreconditionFailed)
	}
	return nil
}

// extra holds the data that only the server uses. The store keeps it as JSON with each
// database or container.
type extra struct {
	// Resource is the JSON of a container as the client sent it, without its ID and the
	// members that the server writes.
	Resource json.RawMessage `json:"resource,omitempty"`
	// Autoscale holds the autoscale settings of the throughput, as the client sent them.
	// nil means that the throughput is manual.
	Autoscale json.RawMessage `json:"autoscale,omitempty"`
}

// json returns the JSON of e, or nil if e is empty.
func (e extra) json() (json.RawMessage, error) {
	if e.Resource == nil && e.Autoscale == nil {
		return nil, nil
	}
	var b bytes.Buffer
	w := json.NewEncoder(&b)
	w.SetEscapeHTML(false) // so that "<" and "&" are stored as the client sent them
	if err := w.Encode(e); err != nil {
		return nil, fmt.Errorf("encode the properties: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// readExtra parses the JSON that json returned. If another program stored other data
// there, it is ignored.
func readExtra(kept json.RawMessage) extra {
	var e extra
	if kept == nil || json.Unmarshal(kept, &e) != nil {
		return extra{}
	}
	return e
}

// sent returns the container's JSON as the client sent it. It returns nil if the
// container was created without the server.
func (e extra) sent() object {
	m, err := parseObject(e.Resource)
	if err != nil {
		return nil
	}
	return m
}

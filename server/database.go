package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/internal/engine"
)

// This file serves /dbs and /dbs/<id>. Supported: create, read, list, delete. Throughput
// at creation creates an offer (see offer.go), which the containers of the database would
// share. It is stored and shown, but not enforced.

// Charges of operations on databases, containers and offers, in request units. As in the
// service, they do not count against any throughput. They are only sent in the answer.
const (
	metadataReadCharge  = 1
	metadataWriteCharge = 5
	listCharge          = 1
)

// maxMetadataBody limits the body of a database, container or offer, in bytes.
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
	e, err := extra{Throughput: t.rate, Autoscale: t.autoscale}.json()
	if err != nil {
		return err
	}
	d, err := s.db.CreateDatabase(x.r.Context(), engine.DatabaseProperties{ID: id, Extra: e})
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

// databases returns all databases, sorted by name.
func (s *Server) databases(x *request) (resourceList, error) {
	l := resourceList{name: "Databases"}
	all, err := s.db.Databases(x.r.Context())
	for _, d := range all {
		l.add(d.ID, databaseBody(d))
	}
	return l, err
}

// sendResource answers with a database, container, offer, user or permission. A read
// whose If-None-Match names its version is answered with 304.
func (x *request) sendResource(status int, etag string, body []byte) error {
	x.charge, x.etag = metadataWriteCharge, etag
	if x.r.Method == http.MethodGet {
		if tag := x.header("If-None-Match"); tag == "*" || tag == etag {
			x.charge = 0
			return engine.ErrNotModified
		}
		x.charge = metadataReadCharge
	}
	return x.send(status, body)
}

// sendDeleted answers that a resource was deleted.
func (x *request) sendDeleted() error {
	x.charge = metadataWriteCharge
	return x.sendEmpty(http.StatusNoContent)
}

// databaseBody returns a database in the form of the protocol.
func databaseBody(d engine.DatabaseProperties) []byte {
	m := object{{"id", jsonString(d.ID)}}
	m.setSystem(d.RID, databaseSelf(d.RID), d.ETag, d.Modified.Unix())
	m.set("_colls", jsonString("colls/"))
	m.set("_users", jsonString("users/"))
	return m.json()
}

func databaseSelf(rid string) string { return "dbs/" + rid + "/" }

// setSystem sets the system properties that every resource has.
func (m *object) setSystem(rid, self, etag string, modified int64) {
	m.set("_rid", jsonString(rid))
	m.set("_self", jsonString(self))
	m.set("_etag", jsonString(etag))
	m.set("_ts", jsontext.Value(fmt.Sprint(modified)))
}

// resource reads the body of a database, container, user or permission, and its ID. The
// store validates the ID.
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

// checkIfMatch compares If-Match with the version of a resource. The store deletes
// databases and containers without a condition, so it does not notice a replacement
// between the two.
func (x *request) checkIfMatch(etag string) error {
	if tag := x.header("If-Match"); tag != "" && tag != "*" && tag != etag {
		return fmt.Errorf("If-Match: %w", engine.ErrPreconditionFailed)
	}
	return nil
}

// extra holds the data that the server stores with a database or container, beyond the
// properties of the store.
type extra struct {
	// Resource is the container as the client sent it, without its id and system
	// properties.
	Resource json.RawMessage `json:"resource,omitempty"`
	// Throughput is the throughput of a database, in RU/s. 0 means none. The store keeps
	// the throughput of a container.
	Throughput int `json:"throughput,omitempty"`
	// Autoscale holds the autoscale settings of an offer, as the client sent them. nil
	// means that the offer is manual.
	Autoscale json.RawMessage `json:"autoscale,omitempty"`
}

// json returns e as JSON, or nil if there is nothing to store.
func (e extra) json() (json.RawMessage, error) {
	if e.Resource == nil && e.Throughput == 0 && e.Autoscale == nil {
		return nil, nil
	}
	var b bytes.Buffer
	w := json.NewEncoder(&b)
	w.SetEscapeHTML(false) // clients receive it as they sent it
	if err := w.Encode(e); err != nil {
		return nil, fmt.Errorf("encode the properties: %w", err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

// readExtra parses the data that the server stored. It ignores data that other programs
// stored there.
func readExtra(kept json.RawMessage) extra {
	var e extra
	if kept == nil || json.Unmarshal(kept, &e) != nil {
		return extra{}
	}
	return e
}

// sent returns the container as the client sent it. It returns nil if the server did not
// create it.
func (e extra) sent() object {
	m, err := parseObject(e.Resource)
	if err != nil {
		return nil
	}
	return m
}

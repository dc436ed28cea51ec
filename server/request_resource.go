package server

import (
	"errors"
	"net/http"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// This file finds the database and the container that a path names. A path may contain
// names or rids. A name can look like a rid, so names are tried first.

// database returns the database in the path, by its name or its rid. If the request
// addresses a resource in the database, the caller must pass the error to ownerError.
func (x *request) database() (storetype.DatabaseProperties, error) {
	d, err := x.s.db.Database(x.r.Context(), x.path.IDs[0])
	if errors.Is(err, feed.ErrNotFound) {
		if byRID, ridErr := x.s.db.DatabaseByRID(x.r.Context(), x.path.IDs[0]); ridErr == nil {
			return byRID, nil
		}
	}
	return d, err
}

// container returns the container in the path, by its name or its rid.
func (x *request) container() (*engine.Container, error) {
	// Nearly all paths have the names of the database and the container. For these, this
	// lookup costs half as much as the one below, because it does not read the database.
	if c, err := x.s.db.Container(x.r.Context(), x.path.IDs[0], x.path.IDs[1]); err == nil {
		return c, nil
	}
	d, err := x.database()
	if err != nil {
		return nil, ownerError(err)
	}
	return x.containerIn(d, x.path.IDs[1])
}

// containerIn returns the container of the database d whose name or rid is id.
func (x *request) containerIn(d storetype.DatabaseProperties, id string) (*engine.Container, error) {
	c, err := x.s.db.Container(x.r.Context(), d.ID, id)
	if errors.Is(err, feed.ErrNotFound) {
		if byRID, ridErr := x.s.db.ContainerByRID(x.r.Context(), id); ridErr == nil && byRID.Identity().DatabaseRID == d.RID {
			return byRID, nil
		}
	}
	return c, err
}

// ownerError converts an error "not found" to the 404 for a missing owner resource. It
// returns other errors unchanged.
func ownerError(err error) error {
	var status *statusError
	if errors.Is(err, feed.ErrNotFound) && !errors.As(err, &status) {
		return errNotFound
	}
	return err
}

// checkOwner converts the error of an operation if the container was deleted during the
// request. A "not found" then becomes the 404 for a missing owner resource, as for later
// requests. It returns other errors unchanged.
func (x *request) checkOwner(err error) error {
	if len(x.path.Types) < 3 || x.path.Types[1] != "colls" || x.content == "" || !errors.Is(err, feed.ErrNotFound) {
		return err // the path has no container, or the container was not found before
	}
	if c, gone := x.container(); gone == nil && c.Identity().ContainerRID == x.content {
		return err
	}
	return ownerError(err)
}

// byRID reports whether the path names the container c by its rid.
func (x *request) byRID(c *engine.Container) bool {
	id := c.Identity()
	return x.path.IDs[1] != id.Container && x.path.IDs[1] == id.ContainerRID
}

// owner returns the container in the path, for a request that addresses a resource in it.
// It sets the answer's headers that name the owner. It returns an error if the client
// expects a container with another rid.
func (x *request) owner() (*engine.Container, error) {
	c, err := x.container()
	if err != nil {
		return nil, ownerError(err)
	}
	id := c.Identity()
	if want := x.header(wire.HeaderIntendedContainer); want != "" && want != id.ContainerRID {
		return nil, failure(http.StatusBadRequest, wire.SubIncorrectContainer, "container %s has the rid %s now, not %.40q: it was deleted and recreated",
			id.Container, id.ContainerRID, want)
	}
	x.c = c
	x.alt = "dbs/" + id.Database + "/colls/" + id.Container
	x.content = id.ContainerRID
	return c, nil
}

// selection is the part of a container that a feed or a query reads. A document must
// match every field that is set.
type selection struct {
	// partition is the ID of a physical partition, or "".
	partition string
	// keys is a range of effective partition keys, or the zero Range.
	keys feed.Range
	// key is a logical partition key or a prefix of a hierarchical one, or nil.
	key feed.PartitionKey
}

// selection returns the part of the container c that the headers of the request select.
func (x *request) selection(c *engine.Container) (selection, error) {
	var (
		s   selection
		err error
	)
	if s.partition, err = x.partitionID(c); err != nil {
		return s, err
	}
	if s.key, err = x.keyIn(c); err != nil {
		return s, err
	}
	s.keys, err = x.keyRange()
	return s, err
}

// partitionID returns the ID of the partition that the header of the request names, or
// "". The header has the form <id> or <rid of the container>,<id>. If the rid is not that
// container's rid, the client has cached a deleted container, and an error is returned.
func (x *request) partitionID(c *engine.Container) (string, error) {
	text := x.header(wire.HeaderPartitionID)
	comma := strings.LastIndexByte(text, ',')
	if comma < 0 {
		return text, nil
	}
	id := c.Identity()
	if rid := text[:comma]; rid != id.ContainerRID {
		return "", failure(http.StatusGone, wire.SubNameCacheStale, "container %s has the rid %s now, not %.40q: it was deleted and recreated",
			id.Container, id.ContainerRID, rid)
	}
	return text[comma+1:], nil
}

// keyRange returns the range of effective partition keys in the headers of the request.
// If there is none, it returns the zero Range. It ignores the header with the kind of the
// range, which SDKs use in different ways.
func (x *request) keyRange() (feed.Range, error) {
	lower, upper := x.header(wire.HeaderStartEPK), x.header(wire.HeaderEndEPK)
	if lower == "" && upper == "" {
		return feed.Range{}, nil
	}
	r := feed.Range{Min: strings.ToUpper(lower), Max: strings.ToUpper(upper)}
	if r.Max == "" {
		r.Max = feed.MaxEPK
	}
	if r.IsEmpty() {
		return r, badRequest("no key lies between x-ms-start-epk %.80q and x-ms-end-epk %.80q", lower, upper)
	}
	return r, nil
}

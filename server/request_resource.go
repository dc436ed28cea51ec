package server

import (
	"errors"
	"net/http"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// An ID of a database or container in a path may be a name or a rid. A name could look
// like a rid, so names are tried first.

// database returns the database of the path. If the path addresses a resource within it,
// the caller passes the error to ownerError.
func (x *request) database() (engine.DatabaseProperties, error) {
	d, err := x.s.db.Database(x.r.Context(), x.path.IDs[0])
	if errors.Is(err, feed.ErrNotFound) {
		if byRID, ridErr := x.s.db.DatabaseByRID(x.r.Context(), x.path.IDs[0]); ridErr == nil {
			return byRID, nil
		}
	}
	return d, err
}

// container returns the container of the path.
func (x *request) container() (*engine.Container, error) {
	// Nearly all requests have both names. This lookup costs half as much, because it
	// does not read the database.
	if c, err := x.s.db.Container(x.r.Context(), x.path.IDs[0], x.path.IDs[1]); err == nil {
		return c, nil
	}
	d, err := x.database()
	if err != nil {
		return nil, ownerError(err)
	}
	return x.containerIn(d, x.path.IDs[1])
}

// containerIn returns the container of a database with the given name or rid.
func (x *request) containerIn(d engine.DatabaseProperties, id string) (*engine.Container, error) {
	c, err := x.s.db.Container(x.r.Context(), d.ID, id)
	if errors.Is(err, feed.ErrNotFound) {
		if byRID, ridErr := x.s.db.ContainerByRID(x.r.Context(), id); ridErr == nil && byRID.Identity().DatabaseRID == d.RID {
			return byRID, nil
		}
	}
	return c, err
}

// ownerError returns the error for a missing owner if err reports that a resource was not
// found. Otherwise it returns err.
func ownerError(err error) error {
	var status *statusError
	if errors.Is(err, feed.ErrNotFound) && !errors.As(err, &status) {
		return ownerNotFound(err)
	}
	return err
}

// checkOwner returns err, the result of an operation. If err is "not found" because the
// container was deleted meanwhile, it returns the error for a missing owner instead.
// Later requests get the same error.
func (x *request) checkOwner(err error) error {
	if len(x.path.Types) < 3 || x.path.Types[1] != "colls" || x.content == "" || !errors.Is(err, feed.ErrNotFound) {
		return err // the path has no container, or the container was not found before
	}
	if c, gone := x.container(); gone == nil && c.Identity().ContainerRID == x.content {
		return err
	}
	return ownerError(err)
}

// byRID reports whether the path addresses the container by its rid.
func (x *request) byRID(c *engine.Container) bool {
	id := c.Identity()
	return x.path.IDs[1] != id.Container && x.path.IDs[1] == id.ContainerRID
}

// owner returns the container that owns the addressed resource, and sets the headers of
// the owner. It returns an error if the client intends another container.
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
	x.alt = "dbs/" + id.Database + "/colls/" + id.Container
	x.content = id.ContainerRID
	return c, nil
}

// selection is the part of a container that a feed or a query selects. An empty field
// selects everything. Several fields select their intersection.
type selection struct {
	// partition is the ID of a physical partition.
	partition string
	// keys is a range of effective partition keys.
	keys feed.Range
	// key is a logical partition key, or a prefix of a hierarchical one.
	key feed.PartitionKey
}

// selection returns the selection in the headers of the request.
func (x *request) selection(c *engine.Container) (selection, error) {
	var (
		s   selection
		err error
	)
	if s.partition, err = x.partitionID(c); err != nil {
		return s, err
	}
	if s.key, err = x.partitionKey(); err != nil {
		return s, err
	}
	s.keys, err = x.keyRange()
	return s, err
}

// partitionID returns the partition that the request names, as <id> or <rid of the
// container>,<id>. It returns "" if the request names none. A client that sends another
// rid has cached a deleted container.
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

// keyRange returns the range of effective partition keys of the request, or the zero
// Range. The header with the kind of the keys is ignored, because SDKs use it
// differently.
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

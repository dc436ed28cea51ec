package server

import (
	"errors"
	"net/http"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// Every id of a database or container in a path may be a name or a rid. A name
// could look like a rid, so names are tried first.

// database finds the database of the path. The error is that of a resource that
// was addressed itself; ownerNotFound makes it that of an owner.
func (x *request) database() (engine.DatabaseProperties, error) {
	d, err := x.s.db.Database(x.r.Context(), x.path.IDs[0])
	if errors.Is(err, feed.ErrNotFound) {
		if byRID, ridErr := x.s.db.DatabaseByRID(x.r.Context(), x.path.IDs[0]); ridErr == nil {
			return byRID, nil
		}
	}
	return d, err
}

// container finds the container of the path.
func (x *request) container() (*engine.Container, error) {
	// By both names, as nearly all requests have it, at half the price: the properties of the database aren't asked for.
	if c, err := x.s.db.Container(x.r.Context(), x.path.IDs[0], x.path.IDs[1]); err == nil {
		return c, nil
	}
	d, err := x.database()
	if err != nil {
		return nil, ownerError(err)
	}
	return x.containerIn(d, x.path.IDs[1])
}

// containerIn finds a container of a database by its name or its rid.
func (x *request) containerIn(d engine.DatabaseProperties, id string) (*engine.Container, error) {
	c, err := x.s.db.Container(x.r.Context(), d.ID, id)
	if errors.Is(err, feed.ErrNotFound) {
		if byRID, ridErr := x.s.db.ContainerByRID(x.r.Context(), id); ridErr == nil && byRID.Identity().DatabaseRID == d.RID {
			return byRID, nil
		}
	}
	return c, err
}

// above makes the error of a resource that was looked for the error of an owner
// that isn't there.
func ownerError(err error) error {
	var status *statusError
	if errors.Is(err, feed.ErrNotFound) && !errors.As(err, &status) {
		return ownerNotFound(err)
	}
	return err
}

// checkOwner makes "not found" in a container that was deleted while the request was under way what it would be a moment later: the
// owner is missing, not the item.
func (x *request) checkOwner(err error) error {
	if len(x.path.Types) < 3 || x.path.Types[1] != "colls" || x.content == "" || !errors.Is(err, feed.ErrNotFound) {
		return err // below no container, or it wasn't found in the first place
	}
	if c, gone := x.container(); gone == nil && c.Identity().ContainerRID == x.content {
		return err
	}
	return ownerError(err)
}

// byRID reports whether the path addresses the container by its rid, and not by its name.
func (x *request) byRID(c *engine.Container) bool {
	id := c.Identity()
	return x.path.IDs[1] != id.Container && x.path.IDs[1] == id.ContainerRID
}

// owner finds the container that owns what the path addresses, checks that it is the one the
// client means, and notes it for the headers of the answer.
func (x *request) owner() (*engine.Container, error) {
	c, err := x.container()
	if err != nil {
		return nil, ownerError(err)
	}
	id := c.Identity()
	if want := x.header(wire.HeaderIntendedContainer); want != "" && want != id.ContainerRID {
		return nil, failure(http.StatusBadRequest, wire.SubIncorrectContainer, "container %s has the rid %s now, not %.40q: it was deleted and made anew",
			id.Container, id.ContainerRID, want)
	}
	x.alt = "dbs/" + id.Database + "/colls/" + id.Container
	x.content = id.ContainerRID
	return c, nil
}

// scope is the part of a container that a feed or a query is asked of. What is empty doesn't narrow it, and
// what is given does so together: a partition and a key are that key's documents in that partition.
type selection struct {
	// partition is the ID of a physical partition.
	partition string
	// keys is a range of effective partition keys.
	keys feed.Range
	// key is a logical partition key, or a prefix of a hierarchical one.
	key feed.PartitionKey
}

// scope reads the headers that narrow a request.
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

// partitionID is the partition that the request names, as <id> or <rid of the container>,<id>; empty:
// none. Whoever names one with another rid has taken it from a container that was deleted.
func (x *request) partitionID(c *engine.Container) (string, error) {
	text := x.header(wire.HeaderPartitionID)
	comma := strings.LastIndexByte(text, ',')
	if comma < 0 {
		return text, nil
	}
	id := c.Identity()
	if rid := text[:comma]; rid != id.ContainerRID {
		return "", failure(http.StatusGone, wire.SubNameCacheStale, "container %s has the rid %s now, not %.40q: it was deleted and made anew",
			id.Container, id.ContainerRID, rid)
	}
	return text[comma+1:], nil
}

// keyRange is the range of effective partition keys that the request narrows to; the zero Range: none. The header
// that says what kind of keys they are differs between SDKs, and isn't looked at.
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

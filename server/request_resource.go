package server

import (
	"errors"
	"net/http"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// Every id of a database or container in a path may be a name or a rid. A name
// could look like a rid, so names are tried first.

// database finds the database of the path. The error is that of a resource that
// was addressed itself; ownerNotFound makes it that of an owner.
func (x *exchange) database() (engine.DatabaseProperties, error) {
	d, err := x.s.db.Database(x.r.Context(), x.path.IDs[0])
	if errors.Is(err, feed.ErrNotFound) {
		if byRID, ridErr := x.s.db.DatabaseByRID(x.r.Context(), x.path.IDs[0]); ridErr == nil {
			return byRID, nil
		}
	}
	return d, err
}

// container finds the container of the path.
func (x *exchange) container() (*engine.Container, error) {
	// By both names, as nearly all requests have it, at half the price: the properties of the database aren't asked for.
	if c, err := x.s.db.Container(x.r.Context(), x.path.IDs[0], x.path.IDs[1]); err == nil {
		return c, nil
	}
	d, err := x.database()
	if err != nil {
		return nil, above(err)
	}
	c, err := x.s.db.Container(x.r.Context(), d.ID, x.path.IDs[1])
	if errors.Is(err, feed.ErrNotFound) {
		if byRID, ridErr := x.s.db.ContainerByRID(x.r.Context(), x.path.IDs[1]); ridErr == nil && byRID.Identity().DatabaseRID == d.RID {
			return byRID, nil
		}
	}
	return c, err
}

// above makes the error of a resource that was looked for the error of an owner
// that isn't there.
func above(err error) error {
	var status *statusError
	if errors.Is(err, feed.ErrNotFound) && !errors.As(err, &status) {
		return ownerNotFound(err)
	}
	return err
}

// orphaned makes "not found" in a container that was deleted while the request was under way what it would be a moment later: the
// owner is missing, not the item.
func (x *exchange) orphaned(err error) error {
	if len(x.path.Types) < 3 || x.path.Types[1] != "colls" || x.content == "" || !errors.Is(err, feed.ErrNotFound) {
		return err // below no container, or it wasn't found in the first place
	}
	if c, gone := x.container(); gone == nil && c.Identity().ContainerRID == x.content {
		return err
	}
	return above(err)
}

// byRID reports whether the path addresses the container by its rid, and not by its name.
func (x *exchange) byRID(c *engine.Container) bool {
	id := c.Identity()
	return x.path.IDs[1] != id.Container && x.path.IDs[1] == id.ContainerRID
}

// owner finds the container that owns what the path addresses, checks that it is the one the
// client means, and notes it for the headers of the answer.
func (x *exchange) owner() (*engine.Container, error) {
	c, err := x.container()
	if err != nil {
		return nil, above(err)
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

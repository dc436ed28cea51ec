package server

import (
	"errors"
	"fmt"
	"slices"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/store"
)

// Every id of a database or container in a path may be a name or a rid. A name
// could look like a rid, so names are tried first.

// database finds the database of the path. The error is that of a resource that
// was addressed itself; ownerNotFound makes it that of an owner.
func (x *exchange) database() (store.DatabaseProperties, error) {
	d, err := x.s.db.Database(x.r.Context(), x.path.IDs[0])
	if errors.Is(err, feed.ErrNotFound) {
		all, listErr := x.s.db.Databases(x.r.Context())
		if i := slices.IndexFunc(all, func(d store.DatabaseProperties) bool { return d.RID == x.path.IDs[0] }); listErr == nil && i >= 0 {
			return all[i], nil
		}
	}
	return d, err
}

// container finds the container of the path, and notes it as the owner of what is answered.
func (x *exchange) container() (*store.Container, error) {
	d, err := x.database()
	if err != nil {
		return nil, ownerNotFound(err)
	}
	c, err := x.s.db.Container(x.r.Context(), d.ID, x.path.IDs[1])
	if errors.Is(err, feed.ErrNotFound) {
		all, listErr := x.s.db.Containers(x.r.Context(), d.ID)
		if i := slices.IndexFunc(all, func(c *store.Container) bool { return c.Identity().ContainerRID == x.path.IDs[1] }); listErr == nil && i >= 0 {
			return all[i], nil
		}
	}
	return c, err
}

// owner finds the container that owns what the path addresses, checks that it is the one the
// client means, and notes it for the headers of the answer.
func (x *exchange) owner() (*store.Container, error) {
	c, err := x.container()
	if err != nil {
		var status *statusError
		if errors.As(err, &status) || !errors.Is(err, feed.ErrNotFound) {
			return nil, err
		}
		return nil, ownerNotFound(err)
	}
	id := c.Identity()
	if want := x.header(wire.HeaderIntendedContainer); want != "" && want != id.ContainerRID {
		return nil, failure(400, wire.SubIncorrectContainer, "container %s has the rid %s now, not %.40q: it was deleted and made anew",
			id.Container, id.ContainerRID, want)
	}
	x.alt = fmt.Sprintf("dbs/%s/colls/%s", id.Database, id.Container)
	x.content = id.ContainerRID
	return c, nil
}

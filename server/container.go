package server

import (
	"encoding/json"
	"errors"
	"net/http"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
)

// This file serves /dbs/<id>/colls and /dbs/<id>/colls/<id>. Supported: create, read,
// replace, list, delete.
//
// The server stores and returns every property of a container that a client sends
// (container_properties.go). The store uses four of them: the partition key, unique keys,
// the default time to live and the retention of versions. Throughput at creation creates
// an offer and determines the number of physical partitions. Settings of indexes,
// computed properties, vectors and full text have no effect.

func (s *Server) createContainer(x *request) error {
	d, err := x.parent()
	if err != nil {
		return err
	}
	m, id, err := x.resource()
	if err != nil {
		return err
	}
	p, err := newContainer(&m, s.o.Versions)
	if err != nil {
		return err
	}
	t, err := x.throughput()
	if err != nil {
		return err
	}
	p.ID, p.Throughput, p.Partitions = id, t.rate, max(s.o.Partitions, t.partitions())
	if p.Extra, err = (extra{Resource: storedMembers(m), Autoscale: t.autoscale}).json(); err != nil {
		return err
	}
	c, err := s.db.CreateContainer(x.r.Context(), d.ID, p)
	if err != nil {
		return ownerError(err)
	}
	return x.sendContainer(http.StatusCreated, c)
}

func (s *Server) readContainer(x *request) error {
	c, err := x.addressedContainer()
	if err != nil {
		return err
	}
	return x.sendContainer(http.StatusOK, c)
}

func (s *Server) replaceContainer(x *request) error {
	c, err := x.addressedContainer()
	if err != nil {
		return err
	}
	m, id, err := x.resource()
	if err != nil {
		return err
	}
	err = x.changeContainer(c, func(p *engine.ContainerProperties) error {
		if id != p.ID {
			return badRequest("the id of a container cannot be changed: it is %q, not %.300q", p.ID, id)
		}
		return replaceProperties(p, m, s.o.Versions)
	})
	if err != nil {
		return err
	}
	return x.sendContainer(http.StatusOK, c)
}

// changeContainer reads the properties of a container, calls change to modify them, and
// stores the result. If another request stores other properties in between, it starts
// again, so that no change is lost. It returns an error if the If-Match of the request
// does not hold.
func (x *request) changeContainer(c *engine.Container, change func(*engine.ContainerProperties) error) error {
	for {
		p, err := c.Properties(x.r.Context())
		if err != nil {
			return err
		}
		if err := x.checkIfMatch(p.ETag); err != nil {
			return err
		}
		if err := change(&p); err != nil {
			return err
		}
		_, err = x.s.db.ReplaceContainer(x.r.Context(), c.Identity().Database, p)
		if !errors.Is(err, engine.ErrPreconditionFailed) {
			return err
		}
	}
}

func (s *Server) deleteContainer(x *request) error {
	c, err := x.addressedContainer()
	if err != nil {
		return err
	}
	p, err := c.Properties(x.r.Context())
	if err != nil {
		return err
	}
	if err := x.checkIfMatch(p.ETag); err != nil {
		return err
	}
	if err := s.db.DeleteContainer(x.r.Context(), c.Identity().Database, p.ID); err != nil {
		return err
	}
	s.freezes.dropDeleted(x.r.Context())
	return x.sendDeleted()
}

// parent returns the database in the path. It also sets the answer's headers that name
// the owner resource.
func (x *request) parent() (engine.DatabaseProperties, error) {
	d, err := x.database()
	if err != nil {
		return d, ownerError(err)
	}
	x.alt, x.content = "dbs/"+d.ID, d.RID
	return d, nil
}

// addressedContainer returns the container in the path, for a request that addresses the
// container itself. It also sets the answer's headers that name the owner: the database.
func (x *request) addressedContainer() (*engine.Container, error) {
	c, err := x.container()
	if err != nil {
		return nil, err
	}
	id := c.Identity()
	x.alt, x.content = "dbs/"+id.Database, id.DatabaseRID
	return c, nil
}

// containers returns all containers of the database in the path, sorted by name.
func (s *Server) containers(x *request) (resourceList, error) {
	d, err := x.parent()
	l := resourceList{owner: d.RID, name: "DocumentCollections"}
	if err != nil {
		return l, err
	}
	all, err := s.db.Containers(x.r.Context(), d.ID)
	if err != nil {
		return l, ownerError(err)
	}
	for _, c := range all {
		p, err := c.Properties(x.r.Context())
		if errors.Is(err, feed.ErrNotFound) {
			continue // the container was deleted after the list was read
		}
		if err != nil {
			return l, err
		}
		l.add(p.ID, containerBody(d.RID, p))
	}
	return l, nil
}

func (x *request) sendContainer(status int, c *engine.Container) error {
	p, err := c.Properties(x.r.Context())
	if err != nil {
		return err
	}
	return x.sendResource(status, p.ETag, containerBody(c.Identity().DatabaseRID, p))
}

func containerSelf(database, rid string) string { return databaseSelf(database) + "colls/" + rid + "/" }

// storedMembers returns the members of a container's JSON that are stored as the client
// sent them. It omits the ID and the members that the server writes.
func storedMembers(m object) json.RawMessage {
	var rest object
	for _, e := range m {
		if e.name != "id" && !containerSystem[e.name] {
			rest = append(rest, e)
		}
	}
	return json.RawMessage(rest.json())
}

// containerSystem holds the names of the members of a container that only the server
// writes. If a client sends them, they are ignored.
var containerSystem = map[string]bool{
	"_rid": true, "_self": true, "_etag": true, "_ts": true, "_lsn": true,
	"_docs": true, "_sprocs": true, "_triggers": true, "_udfs": true, "_conflicts": true,
}

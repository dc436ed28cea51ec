package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/querypage"
)

// /dbs/<id>/colls and /dbs/<id>/colls/<id>: create, read, replace, list, delete.
//
// Every property that is sent is kept and given back (container_properties.go); the store acts on partition
// key, unique keys, default time to live and the retention of versions. Throughput at creation makes an offer, and decides the number
// of physical partitions. Indexes, computed properties, vectors and full text are kept as settings, and have no effect.

func (s *Server) createContainer(x *exchange) error {
	d, err := x.parent()
	if err != nil {
		return err
	}
	m, err := x.metadata()
	if err != nil {
		return err
	}
	p, err := newContainer(m, s.o.Versions)
	if err != nil {
		return err
	}
	t, err := x.throughput()
	if err != nil {
		return err
	}
	p.Throughput, p.Partitions = t.rate, max(s.o.Partitions, t.partitions())
	if p.Extra, err = (extra{Resource: kept(m), Autoscale: t.autoscale}).json(); err != nil {
		return err
	}
	c, err := s.db.CreateContainer(x.r.Context(), d.ID, p)
	if err != nil {
		return above(err)
	}
	return x.sendContainer(http.StatusCreated, metadataWriteCharge, c)
}

func (s *Server) readContainer(x *exchange) error {
	c, err := x.addressedContainer()
	if err != nil {
		return err
	}
	p, err := c.Properties(x.r.Context())
	if err != nil {
		return err
	}
	if x.hasMatch(p.ETag) {
		x.etag = p.ETag
		return engine.ErrNotModified
	}
	return x.sendContainer(http.StatusOK, metadataReadCharge, c)
}

func (s *Server) replaceContainer(x *exchange) error {
	c, err := x.addressedContainer()
	if err != nil {
		return err
	}
	m, err := x.metadata()
	if err != nil {
		return err
	}
	err = x.changeContainer(c, x.header("If-Match"), func(p *engine.ContainerProperties) error {
		return replaceProperties(p, m, s.o.Versions)
	})
	if err != nil {
		return err
	}
	return x.sendContainer(http.StatusOK, metadataWriteCharge, c)
}

// changeContainer replaces the properties of a container by what change makes of them. Without a condition of the
// client (an etag, or "*" for none) it begins anew when they have been replaced in between, so that nothing that
// change leaves alone is lost.
func (x *exchange) changeContainer(c *engine.Container, condition string, change func(*engine.ContainerProperties) error) error {
	for {
		p, err := c.Properties(x.r.Context())
		if err != nil {
			return err
		}
		if condition != "" && condition != "*" && condition != p.ETag {
			return fmt.Errorf("container %s: %w", p.ID, engine.ErrPreconditionFailed)
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

func (s *Server) listContainers(x *exchange) error {
	d, err := x.parent()
	if err != nil {
		return err
	}
	all, err := s.allContainers(x.r.Context(), d)
	if err != nil {
		return err
	}
	return x.sendList(d.RID, "DocumentCollections", all)
}

func (s *Server) deleteContainer(x *exchange) error {
	c, err := x.addressedContainer()
	if err != nil {
		return err
	}
	p, err := c.Properties(x.r.Context())
	if err != nil {
		return err
	}
	if err := x.mayDelete(p.ETag); err != nil {
		return err
	}
	if err := s.db.DeleteContainer(x.r.Context(), c.Identity().Database, p.ID); err != nil {
		return err
	}
	s.freezes.dropDeleted(x.r.Context())
	x.charge = metadataWriteCharge
	return x.sendEmpty(http.StatusNoContent)
}

// parent finds the database above containers, and notes it as the owner of what is answered.
func (x *exchange) parent() (engine.DatabaseProperties, error) {
	d, err := x.database()
	if err != nil {
		return d, above(err)
	}
	x.alt, x.content = "dbs/"+d.ID, d.RID
	return d, nil
}

// addressedContainer finds the container of the path, when it is itself what is asked for.
func (x *exchange) addressedContainer() (*engine.Container, error) {
	c, err := x.container()
	if err != nil {
		return nil, err
	}
	id := c.Identity()
	x.alt, x.content = "dbs/"+id.Database, id.DatabaseRID
	return c, nil
}

// allContainers are all containers of a database, by name.
func (s *Server) allContainers(ctx context.Context, d engine.DatabaseProperties) ([]querypage.Item, error) {
	all, err := s.db.Containers(ctx, d.ID)
	if err != nil {
		return nil, above(err)
	}
	list := make([]querypage.Item, 0, len(all))
	for _, c := range all {
		p, err := c.Properties(ctx)
		if errors.Is(err, feed.ErrNotFound) {
			continue // deleted since
		}
		if err != nil {
			return nil, err
		}
		list = append(list, querypage.Item{Key: p.ID, Body: containerBody(d.RID, p)})
	}
	return list, nil
}

func (x *exchange) sendContainer(status int, charge float64, c *engine.Container) error {
	p, err := c.Properties(x.r.Context())
	if err != nil {
		return err
	}
	x.charge, x.etag = charge, p.ETag
	return x.send(status, containerBody(c.Identity().DatabaseRID, p))
}

func containerSelf(database, rid string) string { return databaseSelf(database) + "colls/" + rid + "/" }

// kept is the part of a container's body to be kept: all but its id and what the server writes itself.
func kept(m members) json.RawMessage {
	var rest members
	for _, e := range m {
		if e.name != "id" && !containerSystem[e.name] {
			rest = append(rest, e)
		}
	}
	return json.RawMessage(rest.json())
}

// containerSystem are the properties of a container that the server writes, whatever is sent.
var containerSystem = map[string]bool{
	"_rid": true, "_self": true, "_etag": true, "_ts": true, "_lsn": true,
	"_docs": true, "_sprocs": true, "_triggers": true, "_udfs": true, "_conflicts": true,
}

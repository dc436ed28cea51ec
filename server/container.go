package server

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// This file serves /dbs/<id>/colls and /dbs/<id>/colls/<id>. Supported: create, read,
// replace, list, delete.
//
// The server stores and returns the properties of a container that the service knows
// (container_properties.go), and drops others. The store uses four of them: the partition key,
// unique keys, the default time to live and the retention of versions. A partition key without a
// version has version 1 of the hash. A client of an old version of the REST API may leave out
// the partition key. The container then has a system key (storetype.ContainerProperties), which
// only newer clients see. Throughput at creation creates an offer and determines the number of
// physical partitions. Settings of indexes, computed properties, vectors and full text have no
// effect.

// lastFlatKeys is the last version of the REST API without hierarchical partition keys.
const lastFlatKeys = "2018-12-31"

// firstSystemKeys is the first version of the REST API that requires a partition key of new
// containers, and shows a system key for those that have none.
const firstSystemKeys = "2018-12-31"

// beforeSystemKeys reports whether the client uses a version of the REST API in which a
// container may have no partition key. Its requests to such a container name no key.
func (x *request) beforeSystemKeys() bool {
	version := x.header(wire.HeaderVersion)
	return version != "" && version < firstSystemKeys
}

// versionOfPython is the version of the REST API that the SDK for Python uses.
const versionOfPython = "2020-07-15"

func (s *Server) createContainer(x *request) error {
	d, err := x.parent()
	if err != nil {
		return err
	}
	m, id, err := x.resource()
	if err != nil {
		return err
	}
	p, err := newContainer(&m, s.o.Versions, x.beforeSystemKeys())
	if err != nil {
		return err
	}
	if version := x.header(wire.HeaderVersion); p.KeyVersion == storetype.MultiHash && version != "" && version <= lastFlatKeys {
		return refuse(byBackend, http.StatusBadRequest, wire.SubNone,
			"The 'kind' value 'MultiHash' specified in the partition key definition is invalid. Please choose 'Hash' partition type.")
	}
	t, err := x.throughput()
	if err != nil {
		return err
	}
	p.ID, p.Throughput, p.Partitions = id, t.rate, max(s.o.Partitions, t.partitions())
	if p.SystemKey {
		p.Partitions = 1
	}
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
	err = x.changeContainer(c, func(p *storetype.ContainerProperties) error {
		if id != p.ID {
			return badRequest("the id of a container cannot be changed: it is %q, not %.300q", p.ID, id)
		}
		// The SDK for Python leaves out the unique keys when it replaces a container.
		if v := x.header(wire.HeaderVersion); v >= versionOfPython && m.get("uniqueKeyPolicy") == nil {
			m.setUnlessNil("uniqueKeyPolicy", uniquePolicyOf(*p, readExtra(p.Extra).sent()))
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
func (x *request) changeContainer(c *engine.Container, change func(*storetype.ContainerProperties) error) error {
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
		if !errors.Is(err, storetype.ErrPreconditionFailed) {
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
func (x *request) parent() (storetype.DatabaseProperties, error) {
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
	x.c, x.alt, x.content = c, "dbs/"+id.Database, id.DatabaseRID
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
		l.add(p.ID, x.containerBody(d.RID, p))
	}
	return l, nil
}

func (x *request) sendContainer(status int, c *engine.Container) error {
	p, err := c.Properties(x.r.Context())
	if err != nil {
		return err
	}
	x.c, x.shared = c, p.Throughput == 0
	return x.sendResource(status, p.ETag, x.containerBody(c.Identity().DatabaseRID, p))
}

func containerSelf(database, rid string) string { return databaseSelf(database) + "colls/" + rid + "/" }

// storedMembers returns the members of a container's JSON that are stored as the client
// sent them. As the service, it drops members that it does not know.
func storedMembers(m object) json.RawMessage {
	var rest object
	for _, e := range m {
		if slices.Contains(containerMembers, e.name) {
			rest = append(rest, e)
		}
	}
	return json.RawMessage(rest.json())
}

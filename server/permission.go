package server

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// This file serves /dbs/<id>/users/<id>/permissions and .../<id>. Supported: create,
// upsert, read, list, query, replace, delete. A permission names a resource (a database,
// a container or an item), optionally a partition key in it, and a mode (Read or All).
// Every answer with a permission has a new resource token (auth_resource_token.go), valid
// for x-ms-documentdb-expiry-seconds. So all of these operations need a key that may
// write.
//
// As in the service, a user has at most one permission for each resource and partition
// key; a second one is a conflict. Not supported: permissions for stored procedures,
// triggers, functions and attachments, which this server does not have.

// permission is a permission, as stored in the record of its user.
type permission struct {
	ID     string `json:"id"`
	Number uint32 `json:"number"`
	// All is true if the mode is All, and false if it is Read.
	All bool `json:"all,omitempty"`
	// Resource is the link of the resource, and Key the JSON of the partition key. Both
	// are stored and returned as the client sent them.
	Resource string          `json:"resource"`
	Key      json.RawMessage `json:"key,omitempty"`
	// Permitted is the resource that Resource and Key identified when the permission was
	// written.
	Permitted permittedResource `json:"reach"`
	Revision  uint64            `json:"revision"`
	Modified  int64             `json:"modified"`
}

// These are the modes of permissions.
const (
	modeRead = "Read"
	modeAll  = "All"
)

func (p permission) etag() string { return revisionTag(p.Number, p.Revision, p.Modified) }

// These are the times, in seconds, for which a resource token can be valid: the default,
// the shortest and the longest. The service has the same
// limits.
const (
	tokenLifeDefault = 3600
	tokenLifeLeast   = 10
	tokenLifeMost    = 18_000
)

// tokenLife returns the time for which the tokens in the answer are valid. It is in a
// header of the request, or else the default.
func (x *request) tokenLife() (time.Duration, error) {
	seconds := tokenLifeDefault
	if given := x.header(wire.HeaderTokenExpiry); given != "" {
		var err error
		if seconds, err = strconv.Atoi(given); err != nil || seconds < tokenLifeLeast || seconds > tokenLifeMost {
			return 0, badRequest("the header x-ms-documentdb-expiry-seconds is %.40q; it must be %d to %d", given, tokenLifeLeast, tokenLifeMost)
		}
	}
	return time.Duration(seconds) * time.Second, nil
}

// permissionBody returns the JSON of a permission of the user u, with a new resource
// token that is valid for life.
func (x *request) permissionBody(u *user, p permission, life time.Duration) []byte {
	rid := permissionRID(u, p.Number)
	m := object{{"id", jsonString(p.ID)}}
	m.set("permissionMode", jsonString(map[bool]string{false: modeRead, true: modeAll}[p.All]))
	m.set("resource", jsonString(p.Resource))
	m.setUnlessNil("resourcePartitionKey", jsontext.Value(p.Key))
	m.setSystem(rid, u.self()+"permissions/"+rid+"/", p.etag(), p.Modified)
	m.set("_token", jsonString(x.s.makeToken(u, p, life)))
	return m.json()
}

// permissionRID returns the rid of a permission: the bytes of the user's rid, followed by
// the number of the permission.
func permissionRID(u *user, number uint32) string {
	b := binary.BigEndian.AppendUint32(u.ridBytes(), number)
	return layout.RIDEncoding.EncodeToString(append(b, 0, 0, 0, 0))
}

// permissionIn returns the index in u.Permissions of the permission that the path names
// by its ID or rid.
func (x *request) permissionIn(u *user) (int, error) {
	id := x.path.IDs[2]
	i := slices.IndexFunc(u.Permissions, func(p permission) bool { return p.ID == id })
	if i < 0 {
		i = slices.IndexFunc(u.Permissions, func(p permission) bool { return permissionRID(u, p.Number) == id })
	}
	if i < 0 {
		return i, failure(http.StatusNotFound, wire.SubNone, "user %s has no permission %.300q", u.id(), id)
	}
	return i, nil
}

// wanted parses the permission in the body of the request. life is the time for which its
// tokens are valid.
func (x *request) wanted() (p permission, life time.Duration, err error) {
	if life, err = x.tokenLife(); err != nil {
		return p, 0, err
	}
	m, id, err := x.resource()
	if err != nil {
		return p, 0, err
	}
	p.ID = id
	if p.ID == "" || len(p.ID) > engine.MaxNameSize || strings.ContainsAny(p.ID, `/\?#`) {
		return p, 0, badRequest(`the permission's id %.300q is empty, longer than %d bytes, or contains one of / \ ? #`, p.ID, engine.MaxNameSize)
	}
	var mode string
	if v := m.get("permissionMode"); v != nil {
		_ = json.Unmarshal(v, &mode) // if the value is not a string, mode stays empty, which is invalid
	}
	switch {
	case strings.EqualFold(mode, modeAll):
		p.All = true
	case !strings.EqualFold(mode, modeRead):
		return p, 0, badRequest("the permissionMode is %.40s; it must be Read or All", cmp.Or(string(m.get("permissionMode")), "missing"))
	}
	if v := m.get("resource"); v == nil || json.Unmarshal(v, &p.Resource) != nil || p.Resource == "" {
		return p, 0, badRequest("the permission has no resource; send the link of a database, a container or an item, as in dbs/shop/colls/orders")
	}
	if v := m.get("resourcePartitionKey"); v != nil {
		p.Key = json.RawMessage(v)
	}
	p.Permitted, err = x.resolve(p.Resource, p.Key)
	return p, life, err
}

// put stores p in u.Permissions at index i, or appends it if i is negative. It returns p
// with its number and revision set.
func (x *request) put(u *user, i int, p permission) (permission, error) {
	if i >= 0 {
		if err := x.checkIfMatch(u.Permissions[i].etag()); err != nil {
			return p, err
		}
	}
	for other, q := range u.Permissions {
		switch {
		case other == i:
		case q.ID == p.ID:
			return p, failure(http.StatusConflict, wire.SubNone, "user %s already has a permission %s", u.id(), p.ID)
		case q.Permitted == p.Permitted:
			return p, failure(http.StatusConflict, wire.SubNone, "user %s already has a permission for that resource and partition key: %s", u.id(), q.ID)
		}
	}
	p.Modified = x.s.db.Now().Unix()
	if i < 0 {
		u.Last++
		p.Number, p.Revision = u.Last, 1
		u.Permissions = append(u.Permissions, p)
		return p, nil
	}
	p.Number, p.Revision = u.Permissions[i].Number, u.Permissions[i].Revision+1
	u.Permissions[i] = p
	return p, nil
}

// writePermission stores the permission in the body of the request and answers with it.
// find returns the index of the permission to replace, or a negative number to add one.
func (x *request) writePermission(find func(u *user, id string) (int, error)) error {
	p, life, err := x.wanted()
	if err != nil {
		return err
	}
	status := http.StatusOK
	u, err := x.changeUser(func(u *user) (_ string, err error) {
		i, err := find(u, p.ID)
		if err != nil {
			return "", err
		}
		if status = http.StatusOK; i < 0 {
			status = http.StatusCreated
		}
		p, err = x.put(u, i, p)
		return "", err
	})
	if err != nil {
		return ownerError(err)
	}
	return x.sendPermission(status, u, p, life)
}

// postPermission creates a permission, or upserts it if the request has the upsert
// header.
func (s *Server) postPermission(x *request) error {
	return x.writePermission(func(u *user, id string) (int, error) {
		return slices.IndexFunc(u.Permissions, func(q permission) bool { return isUpsert(x) && q.ID == id }), nil
	})
}

func (s *Server) replacePermission(x *request) error {
	return x.writePermission(func(u *user, _ string) (int, error) { return x.permissionIn(u) })
}

func (s *Server) readPermission(x *request) error {
	life, err := x.tokenLife()
	if err != nil {
		return err
	}
	u, err := x.user()
	if err != nil {
		return ownerError(err)
	}
	i, err := x.permissionIn(u)
	if err != nil {
		return err
	}
	// If-None-Match is ignored. A client reads a permission to get a new token, so a 304
	// would be useless.
	return x.sendPermission(http.StatusOK, u, u.Permissions[i], life)
}

func (s *Server) deletePermission(x *request) error {
	_, err := x.changeUser(func(u *user) (string, error) {
		i, err := x.permissionIn(u)
		if err != nil {
			return "", err
		}
		if err := x.checkIfMatch(u.Permissions[i].etag()); err != nil {
			return "", err
		}
		u.Permissions = slices.Delete(u.Permissions, i, i+1)
		return "", nil
	})
	if err != nil {
		return ownerError(err)
	}
	return x.sendDeleted()
}

// permissions returns the list of the permissions of the user in the path, sorted by
// name. Each has a new token.
func (s *Server) permissions(x *request) (resourceList, error) {
	life, err := x.tokenLife()
	if err != nil {
		return resourceList{}, err
	}
	u, err := x.user()
	if err != nil {
		return resourceList{}, ownerError(err)
	}
	l := resourceList{owner: u.rid(), name: "Permissions"}
	for _, p := range u.Permissions {
		l.add(p.ID, x.permissionBody(u, p, life))
	}
	l.sort()
	return l, nil
}

func (x *request) sendPermission(status int, u *user, p permission, life time.Duration) error {
	x.charge, x.etag = metadataReadCharge, p.etag()
	if x.r.Method != http.MethodGet {
		x.charge = metadataWriteCharge
	}
	return x.send(status, x.permissionBody(u, p, life))
}

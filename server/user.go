package server

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// This file serves /dbs/<id>/users and /dbs/<id>/users/<id>. Supported: create, upsert,
// read, list, query, replace (also with another ID), delete. A user has permissions
// (permission.go) and no password. The holder of the account key reads a permission and
// passes on the token in the answer.
//
// A user and its permissions are one record of the store. They change together, survive a
// restart, and are deleted with the database. A record is limited to 256 KiB, which is
// room for some hundreds of permissions.

// user is a user and its permissions, as stored in one record.
type user struct {
	// Revision is the number of changes of the user itself. Modified is the time of the
	// last one, as a Unix time in seconds.
	Revision uint64 `json:"revision"`
	Modified int64  `json:"modified"`
	// Last is the highest number that a permission of this user has had. The next
	// permission gets the number after it.
	Last        uint32       `json:"last,omitempty"`
	Permissions []permission `json:"permissions,omitempty"`

	// database is the user's database. record is the record that holds the user, under
	// the user's name.
	database storetype.DatabaseProperties
	record   engine.Record
}

func (u *user) id() string { return u.record.Name }

// rid returns the rid of the user: the bytes of the database's rid and the number of the
// record. The top bit of the number is 0. In the rid of a container, the same bit is 1.
func (u *user) rid() string { return layout.RIDEncoding.EncodeToString(u.ridBytes()) }

func (u *user) ridBytes() []byte {
	return binary.BigEndian.AppendUint32(ridBytes(u.database.RID), u.record.Number)
}

// ridBytes decodes a rid that the store returned.
func ridBytes(rid string) []byte {
	b, _ := layout.RIDEncoding.DecodeString(rid)
	return b
}

func (u *user) self() string { return databaseSelf(u.database.RID) + "users/" + u.rid() + "/" }

func (u *user) etag() string { return revisionTag(u.record.Number, u.Revision, u.Modified) }

// revisionTag returns the etag of a user or a permission. It changes with every revision.
func revisionTag(number uint32, revision uint64, modified int64) string {
	return fmt.Sprintf("\"%08x-0000-%04x-0000-%012x\"", number, revision&0xffff, modified)
}

// body returns the JSON of the user for an answer.
func (u *user) body() []byte {
	m := object{{"id", jsonString(u.id())}}
	m.setSystem(u.rid(), u.self(), u.etag(), u.Modified)
	m.set("_permissions", jsonString("permissions/"))
	return m.json()
}

// readUser decodes the user in the record r of the database d.
func readUser(d storetype.DatabaseProperties, r engine.Record) (*user, error) {
	u := &user{database: d, record: r}
	if err := json.Unmarshal(r.Value, u); err != nil {
		return nil, fmt.Errorf("cannot read user %q of database %q: %w", r.Name, d.ID, err)
	}
	return u, nil
}

// user returns the user in the path, by its name or its rid. If the request addresses a
// permission, the caller must pass the error to ownerError.
func (x *request) user() (*user, error) {
	d, err := x.parent()
	if err != nil {
		return nil, err
	}
	r, err := x.s.db.Record(x.r.Context(), d.ID, x.path.IDs[1])
	if number, ok := userNumber(d, x.path.IDs[1]); ok && errors.Is(err, feed.ErrNotFound) {
		r, err = x.s.db.RecordByNumber(x.r.Context(), d.ID, number)
	}
	if err != nil {
		return nil, err
	}
	return readUser(d, r)
}

// userNumber returns the record number in the rid of a user of the database d. ok is
// false if the text is not such a rid.
func userNumber(d storetype.DatabaseProperties, rid string) (number uint32, ok bool) {
	b, err := layout.RIDEncoding.DecodeString(rid)
	if err != nil || len(b) != 8 || layout.RIDEncoding.EncodeToString(b[:4]) != d.RID {
		return 0, false
	}
	return binary.BigEndian.Uint32(b[4:]), true
}

// changeUser reads the user in the path, calls change to modify it, and stores the
// result. If another request changes the user in between, it starts again. change returns
// the new name of the user, or "" to keep the name.
func (x *request) changeUser(change func(u *user) (name string, err error)) (*user, error) {
	for {
		u, err := x.user()
		if err != nil {
			return nil, err
		}
		name, err := change(u)
		if err != nil {
			return nil, err
		}
		old := u.id()
		if name == "" {
			name = old
		}
		u.record.Name = name
		if u.record.Value, err = json.Marshal(u); err != nil {
			return nil, fmt.Errorf("encode the user: %w", err)
		}
		r, err := x.s.db.ReplaceRecord(x.r.Context(), u.database.ID, old, u.record)
		if large := (*storetype.TooLargeError)(nil); errors.As(err, &large) {
			return nil, failure(http.StatusRequestEntityTooLarge, wire.SubNone, "user %s has too many permissions for this server: %d bytes, at most %d; give further ones to another user", name, large.Size, large.Limit)
		}
		if !errors.Is(err, storetype.ErrPreconditionFailed) {
			u.record = r
			return u, err
		}
	}
}

// postUser creates a user, or upserts it if the request has the upsert header.
func (s *Server) postUser(x *request) error {
	d, err := x.parent()
	if err != nil {
		return err
	}
	_, id, err := x.resource()
	if err != nil {
		return err
	}
	u := &user{Revision: 1, Modified: s.db.Now().Unix(), database: d}
	value, err := json.Marshal(u)
	if err != nil {
		return fmt.Errorf("encode the user: %w", err)
	}
	u.record, err = s.db.CreateRecord(x.r.Context(), d.ID, engine.Record{Name: id, Value: value})
	if isUpsert(x) && errors.Is(err, storetype.ErrConflict) {
		x.path = wire.Path{Types: []string{"dbs", "users"}, IDs: []string{x.path.IDs[0], id}}
		return x.putUser(id)
	}
	if err != nil {
		return ownerError(err)
	}
	return x.sendResource(http.StatusCreated, u.etag(), u.body())
}

func (s *Server) readUser(x *request) error {
	u, err := x.user()
	if err != nil {
		return err
	}
	return x.sendResource(http.StatusOK, u.etag(), u.body())
}

func (s *Server) replaceUser(x *request) error {
	_, id, err := x.resource()
	if err != nil {
		return err
	}
	return x.putUser(id)
}

// putUser replaces the user in the path, and changes its name to id.
func (x *request) putUser(id string) error {
	u, err := x.changeUser(func(u *user) (string, error) {
		if err := x.checkIfMatch(u.etag()); err != nil {
			return "", err
		}
		u.Revision++
		u.Modified = x.s.db.Now().Unix()
		return id, nil
	})
	if err != nil {
		return err
	}
	return x.sendResource(http.StatusOK, u.etag(), u.body())
}

func (s *Server) deleteUser(x *request) error {
	for {
		u, err := x.user()
		if err != nil {
			return err
		}
		if err := x.checkIfMatch(u.etag()); err != nil {
			return err
		}
		err = s.db.DeleteRecord(x.r.Context(), u.database.ID, u.id(), u.record.ETag)
		if errors.Is(err, storetype.ErrPreconditionFailed) {
			continue // another request changed a permission of the user in between
		}
		if err != nil {
			return err
		}
		return x.sendDeleted()
	}
}

// users returns the list of the users of the database in the path, sorted by name.
func (s *Server) users(x *request) (resourceList, error) {
	d, err := x.parent()
	l := resourceList{owner: d.RID, name: "Users"}
	if err != nil {
		return l, err
	}
	records, err := s.db.Records(x.r.Context(), d.ID)
	if err != nil {
		return l, ownerError(err)
	}
	for _, r := range records {
		u, err := readUser(d, r)
		if err != nil {
			return l, err
		}
		l.add(u.id(), u.body())
	}
	l.sort()
	return l, nil
}

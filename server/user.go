package server

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// This file serves /dbs/<id>/users and /dbs/<id>/users/<id>. Supported: create, upsert,
// read, list, query, replace (also with another ID), delete. A user has permissions
// (permission.go) and no password. The holder of the account key reads a permission and
// passes on the token in the answer.
//
// A user and its permissions are one record of the store. They change together, survive a
// restart, and are deleted with the database. A record is limited to 256 KiB, which is
// room for some hundreds of permissions.

// user is a user with its permissions, as stored in a record.
type user struct {
	// Revision counts the changes of the user itself. Modified is the Unix time of the
	// last change, in seconds.
	Revision uint64 `json:"revision"`
	Modified int64  `json:"modified"`
	// Last is the highest number of a permission so far.
	Last        uint32       `json:"last,omitempty"`
	Permissions []permission `json:"permissions,omitempty"`

	// database owns the user. record stores the user under its name.
	database engine.DatabaseProperties
	record   engine.Record
}

func (u *user) id() string { return u.record.Name }

// rid returns the rid of the user. It consists of the rid of the database and the number
// of the record. The top bit of the number is clear; in the rid of a container it is set.
func (u *user) rid() string { return engine.RIDEncoding.EncodeToString(u.ridBytes()) }

func (u *user) ridBytes() []byte {
	return binary.BigEndian.AppendUint32(ridBytes(u.database.RID), u.record.Number)
}

// ridBytes returns the bytes of a rid that the store returned.
func ridBytes(rid string) []byte {
	b, _ := engine.RIDEncoding.DecodeString(rid)
	return b
}

func (u *user) self() string { return databaseSelf(u.database.RID) + "users/" + u.rid() + "/" }

func (u *user) etag() string { return revisionTag(u.record.Number, u.Revision, u.Modified) }

// revisionTag returns the etag of a user or permission.
func revisionTag(number uint32, revision uint64, modified int64) string {
	return fmt.Sprintf("\"%08x-0000-%04x-0000-%012x\"", number, revision&0xffff, modified)
}

// body returns the user in the form of the protocol.
func (u *user) body() []byte {
	m := object{{"id", jsonString(u.id())}}
	m.setSystem(u.rid(), u.self(), u.etag(), u.Modified)
	m.set("_permissions", jsonString("permissions/"))
	return m.json()
}

// readUser returns the user in a record.
func readUser(d engine.DatabaseProperties, r engine.Record) (*user, error) {
	u := &user{database: d, record: r}
	if err := json.Unmarshal(r.Value, u); err != nil {
		return nil, fmt.Errorf("cannot read user %q of database %q: %w", r.Name, d.ID, err)
	}
	return u, nil
}

// user returns the user of the path, by name or by rid. If the path addresses a
// permission, the caller passes the error to ownerError.
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

// userNumber returns the number in the rid of a user. ok is false for any other text, and
// for users of other databases.
func userNumber(d engine.DatabaseProperties, rid string) (number uint32, ok bool) {
	b, err := engine.RIDEncoding.DecodeString(rid)
	if err != nil || len(b) != 8 || engine.RIDEncoding.EncodeToString(b[:4]) != d.RID {
		return 0, false
	}
	return binary.BigEndian.Uint32(b[4:]), true
}

// changeUser calls change with the user of the path and stores the changed user. If
// another request changes the user meanwhile, it calls change again. name is the new name
// of the user. If it is empty, the user keeps its name.
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
		if large := (*engine.TooLargeError)(nil); errors.As(err, &large) {
			return nil, tooLarge("user %s has too many permissions for this server: %d bytes, at most %d; give further ones to another user", name, large.Size, large.Limit)
		}
		if !errors.Is(err, engine.ErrPreconditionFailed) {
			u.record = r
			return u, err
		}
	}
}

// postUser creates or upserts a user.
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
	if isUpsert(x) && errors.Is(err, engine.ErrConflict) {
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

// putUser replaces the user of the path and names it id.
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
		if errors.Is(err, engine.ErrPreconditionFailed) {
			continue // a permission was changed meanwhile
		}
		if err != nil {
			return err
		}
		return x.sendDeleted()
	}
}

// users returns the users of the path's database, sorted by name.
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

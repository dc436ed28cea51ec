package server

import (
	"encoding/base64"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// The store's clock is two days ahead of the wall clock, because an earlier run wrote
// when the wall clock was ahead. A request with the date of the wall clock must be
// accepted, and so must an AAD token that is valid by the wall clock.
func TestRequestsAreDatedByTheWallClockToo(t *testing.T) {
	fs := vfs.NewMem()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(48 * time.Hour)
		db, err := engine.Open("db", engine.Options{FS: fs, PurgeInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		_, dbErr := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "shop"})
		c, err := db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/id"}})
		if err := errors.Join(dbErr, err); err != nil {
			t.Fatal(err)
		}
		_, err = c.Create(t.Context(), nil, []byte(`{"id":"1"}`), storetype.WriteOptions{})
		if err := errors.Join(err, db.Close()); err != nil {
			t.Fatal(err)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		db, err := engine.Open("db", engine.Options{FS: fs, PurgeInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = db.Close() }()
		s, err := New((*store.DB)(db), Options{})
		if err != nil {
			t.Fatal(err)
		}
		ts := &testServer{Server: s, t: t, db: db, key: s.keys[0].key}
		if ahead := time.Until(ts.db.Now()); ahead < 47*time.Hour {
			t.Fatalf("the store's clock is ahead by %v", ahead)
		}
		for after, status := range map[time.Duration]int{
			0: 200, -16 * time.Minute: 403, 16 * time.Minute: 403, 48 * time.Hour: 200, 49 * time.Hour: 403,
		} {
			date := wire.FormatTime(time.Now().Add(after))
			sig := wire.Authorization(ts.key.Sign(wire.Payload("GET", "dbs", "", date, "")))
			ts.do("GET", "/dbs", headers{wire.HeaderDate: date, "Authorization": sig}, "").want(status)
		}
		for life, status := range map[time.Duration]int{time.Hour: 200, -time.Hour: 401} {
			token := emulatorToken(base64.RawURLEncoding, emulatorTokenHeader, claimsAt(time.Now().Add(-2*time.Hour), time.Now().Add(life)), wire.EmulatorKey)
			ts.withToken("GET", "/dbs", "type=aad&ver=1.0&sig="+token, nil, "").want(status)
		}
	})
}

package server

import (
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/store"
)

// With Options.Versions, a container without a retention keeps versions, as in an account
// with continuous backup. The SDKs' samples of all versions and deletes mode rely on
// this. Without the option, such a container refuses this mode.
func TestContainersWithoutRetentionKeepVersionsWithOptionsVersions(t *testing.T) {
	for _, versions := range []time.Duration{0, 10 * time.Minute} {
		ts := newTestServer(t, Options{Versions: versions})
		var account struct{ ContinuousBackupEnabled bool }
		ts.do("GET", "/", nil, "").want(200).decode(&account)
		if account.ContinuousBackupEnabled != (versions > 0) {
			t.Errorf("continuousBackupEnabled is %t with %s", account.ContinuousBackupEnabled, versions)
		}
		ts.must("POST", "/dbs", nil, `{"id":"shop"}`)
		ts.must("POST", "/dbs/shop/colls", nil, `{"id":"orders","partitionKey":{"paths":["/pk"]}}`)
		want := 400
		if versions > 0 {
			want = 304
		}
		ts.readVersions(after("*")).want(want)
		// A container that sets its own retention keeps it. A replacement whose JSON has
		// no retention does not change it.
		ts.must("POST", "/dbs/shop/colls", nil, `{"id":"own","partitionKey":{"paths":["/pk"]},"changeFeedPolicy":{"retentionDuration":5}}`)
		var own struct {
			ChangeFeedPolicy struct{ RetentionDuration int }
		}
		ts.do("GET", "/dbs/shop/colls/own", nil, "").want(200).decode(&own)
		if own.ChangeFeedPolicy.RetentionDuration != 5 {
			t.Errorf("a retention of 5 minutes is shown as %d", own.ChangeFeedPolicy.RetentionDuration)
		}
		ts.must("PUT", orders, nil, `{"id":"orders","partitionKey":{"paths":["/pk"]},"defaultTtl":60}`)
		ts.readVersions(after("*")).want(want)
	}
	for _, wrong := range []time.Duration{-time.Minute, time.Second} {
		db, err := engine.OpenMemory(engine.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := New((*store.DB)(db), Options{Versions: wrong}); err == nil {
			t.Errorf("Versions of %s is accepted", wrong)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
}

package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestReplicateRejectsInvalidFlags(t *testing.T) {
	both := []string{"--from", "http://127.0.0.1:1/d/a", "--to", "http://127.0.0.1:1/d/b"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{nil, "--from is missing"},
		{[]string{"--from", "http://127.0.0.1:1/d/a"}, "--to is missing"},
		{[]string{"--from", "nodatabase"}, "--from is \"nodatabase\""},
		{[]string{"--from", "a/b/c"}, "DATABASE/CONTAINER"},
		{[]string{"--from", "https://user:hunter2@x/d/c"}, "not a valid URL"},
		{[]string{"--from", "https://x/d/c#d"}, "not a valid URL"},
		{[]string{"--from", "https://x/d/c", "--from-endpoint", "https://y/"}, "--from has a URL, and another flag names its account"},
		{append([]string{"--mode", "some"}, both...), "--mode is \"some\""},
		{append([]string{"--key", "product"}, both...), "--key is \"product\""},
		{append([]string{"--hosts", "0"}, both...), "--hosts is 0"},
		{append([]string{"--expiration", "1s"}, both...), "--expiration is 1s"},
		{append([]string{"--from-key", "?"}, both...), "is invalid"},
		{append([]string{"--metrics", "nowhere"}, both...), "--metrics"},
		{append([]string{"--data", ""}, both...), "--data is empty"},
		{[]string{"--from", "d/a", "--to", "http://127.0.0.1:1/d/b"}, "--from-connection-string"},
		{[]string{"--from", "http://127.0.0.1:1/d/a", "--to", "d/b"}, "COSMOS_TO_ENDPOINT"},
	} {
		code, out, errOut := command(t, append([]string{"replicate"}, c.args...)...)
		if code != exitUsage || !strings.Contains(errOut, c.want) || out != "" {
			t.Errorf("%v: status %d, %q, %q; want %q", c.args, code, errOut, out, c.want)
		}
		if strings.Contains(errOut, "hunter2") {
			t.Errorf("%v: a password is printed: %s", c.args, errOut)
		}
	}
}

func TestReplicateCopiesWithinAStoreUntilItHasCaughtUp(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	synctest.Test(t, func(t *testing.T) { replicateWithin(t, dir) })
}

func replicateWithin(t *testing.T, dir string) {
	t.Helper()
	checkStore(t, dir, func(db *store.DB) {
		if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "shop"}); err != nil {
			t.Fatal(err)
		}
		c, err := db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 50 {
			body := fmt.Sprintf(`{"id":"%d","customer":"c%d","product":"p%d"}`, i, i%7, i%3)
			if _, err := c.Upsert(t.Context(), nil, []byte(body), storetype.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
	})
	args := []string{"replicate", "--data", dir, "--from", "shop/orders", "--to", "other/by-product", "--key", "/product", "--until-caught-up"}
	code, _, errOut := command(t, args...)
	if code != exitUsage || !strings.Contains(errOut, "--create creates it") {
		t.Fatalf("without --create: status %d: %s", code, errOut)
	}
	code, out, errOut := command(t, append(args, "--create")...)
	if code != exitOK || !strings.Contains(out, "this process copied 50 documents") || !strings.Contains(out, "deletes are not copied") {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
	checkStore(t, dir, func(db *store.DB) {
		c, err := db.Container(t.Context(), "other", "by-product")
		if err != nil {
			t.Fatal(err)
		}
		item, err := c.Read(t.Context(), feed.PartitionKey{"p1"}, "4", storetype.ReadOptions{})
		if err != nil || !strings.HasPrefix(string(item.Body), `{"id":"4","customer":"c4","product":"p1"`) {
			t.Errorf("order 4: %s, %v", item.Body, err)
		}
	})
}

// --data applies to both sides of a replication, even if environment variables name other
// accounts, because flags override variables.
func TestReplicatePrefersAStoreFlagToAnAccountInTheEnvironment(t *testing.T) {
	t.Setenv("COSMOS_FROM_ENDPOINT", "http://127.0.0.1:1/")
	dir := filepath.Join(t.TempDir(), "no store")
	code, _, errOut := command(t, "replicate", "--data", dir, "--from", "d/a", "--to", "d/b")
	if code != exitFailed || !strings.Contains(errOut, dir+" has no store") {
		t.Errorf("status %d: %s", code, errOut)
	}
}

// A partition key that is quoted as Go quotes strings is not JSON. That once made replications fail
// whose containers' names have ESC in them: the name of the state document has it, too.
func TestReplicateContainersAndKeysWithStrangeCharacters(t *testing.T) {
	const strange = "a\x1bb\a\v\x7f\u202e\U0001f642\"'"
	dir := filepath.Join(t.TempDir(), "data")
	synctest.Test(t, func(t *testing.T) {
		keys := []string{strange, "\x00", "plain"}
		checkStore(t, dir, func(db *store.DB) {
			if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "shop"}); err != nil {
				t.Fatal(err)
			}
			c, err := db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: strange, KeyPaths: []string{"/customer"}})
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range keys {
				body, err := json.Marshal(map[string]string{"id": key, "customer": key})
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Upsert(t.Context(), nil, body, storetype.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		})
		args := []string{
			"replicate", "--data", dir, "--until-caught-up", "--from", "shop/" + strange, "--to", "shop/2" + strange, "--create",
			"--leases", "replicate-leases", "--lease-database", "shop",
		}
		if code, out, errOut := command(t, args...); code != exitOK || !strings.Contains(out, "this process copied 3 documents") {
			t.Fatalf("status %d: %q %q", code, out, errOut)
		}
		checkStore(t, dir, func(db *store.DB) {
			c, err := db.Container(t.Context(), "shop", "2"+strange)
			if err != nil {
				t.Fatal(err)
			}
			for _, key := range keys {
				if _, err := c.Read(t.Context(), feed.PartitionKey{key}, key, storetype.ReadOptions{}); err != nil {
					t.Errorf("%q: %v", key, err)
				}
			}
		})
	})
}

package demo

import (
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestComparisonFindsMissingAndWrongDocuments(t *testing.T) {
	ctx := t.Context()
	db, at, data := threeRecords(t)
	defer closeStore(t, db)
	judge := func(missing, wrong int, why string) {
		t.Helper()
		v, err := compare(ctx, data, at.source, at.target)
		if err != nil {
			t.Fatal(err)
		}
		if v.missing != missing || v.wrong != wrong {
			t.Errorf("%s: missing %d, wrong %d, want %d and %d: %v", why, v.missing, v.wrong, missing, wrong, v.examples)
		}
		if missing+wrong != len(v.examples) {
			t.Errorf("%s: the findings are named %v", why, v.examples)
		}
	}
	put := func(c container, body string) {
		t.Helper()
		if _, err := c.Upsert(ctx, nil, []byte(body), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	judge(3, 0, "nothing written")
	for _, r := range data.records {
		put(at.source, string(r.body))
	}
	judge(3, 0, "nothing copied")
	for _, r := range data.records {
		put(at.target, string(r.body))
	}
	judge(0, 0, "all copied")

	put(at.source, strings.Replace(string(data.records[1].body), `"demo_revision":1`, `"demo_revision":2`, 1))
	judge(0, 1, "an update that was not copied")
	put(at.target, strings.Replace(string(data.records[1].body), `"demo_revision":1`, `"demo_revision":2`, 1))
	judge(0, 0, "the update copied")

	put(at.target, `{"id":"1","k":1,"n":"another"}`)
	judge(0, 1, "a document under two keys")
	remove := func(c container, key any, id string) {
		t.Helper()
		if _, err := c.Delete(ctx, feed.PartitionKey{key}, id, storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	remove(at.target, "another", "1")
	remove(at.target, "c", "3")
	judge(1, 0, "a copy that is lost")
	remove(at.source, 3, "3")
	judge(1, 0, "a record that is lost")
	put(at.target, `{"id":"4","k":1,"n":"x"}`)
	judge(1, 1, "a copy of nothing")
}

func TestPrepareUsesExistingContainersAndRejectsAnotherKey(t *testing.T) {
	db, _, data := threeRecords(t)
	defer closeStore(t, db)
	if _, err := ensureContainers(t.Context(), db, data); err != nil {
		t.Errorf("the second time: %v", err)
	}
	data.key = "n"
	_, err := ensureContainers(t.Context(), db, data)
	if err == nil || !strings.Contains(err.Error(), "key /k, not /n") {
		t.Errorf("with another key: %v", err)
	}
}

func TestKeyPathsOfOddFieldsAreQuoted(t *testing.T) {
	for field, want := range map[string]string{"origin": "/origin", "a b": `/"a b"`, "a/b": `/"a/b"`, `q"`: `/"q\""`} {
		if got := keyPath(field); got != want {
			t.Errorf("keyPath(%q) is %s, want %s", field, got, want)
		}
	}
}

package lease

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// golden returns a recorded document that a Java host wrote; see testdata/java/README.md.
func golden(t testing.TB, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "java", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// javaCodec returns a codec for the processor whose recorded documents are in directory.
func javaCodec(t testing.TB, directory string, doc []byte) Codec {
	t.Helper()
	var id struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(doc, &id); err != nil {
		t.Fatal(err)
	}
	rest, _, _ := strings.Cut(strings.TrimSuffix(id.ID, ".info"), "..")
	parts := strings.Split(strings.TrimPrefix(rest, "projector"), "_")
	if len(parts) != 3 {
		t.Fatalf("id %s", id.ID)
	}
	k := Key{Processor: "projector", Start: feed.Beginning(), Identity: feed.Identity{
		AccountHost: parts[0], Database: "shop", Container: "orders", DatabaseRID: parts[1], ContainerRID: parts[2],
	}}
	dialect := JavaLatestVersion
	switch directory {
	case "handleChanges":
		dialect = JavaHandleChanges
		k.Identity.Database, k.Identity.Container = parts[1], parts[2]
	case "allVersions":
		k.Mode, k.Start = feed.AllVersionsAndDeletes, feed.Now()
	}
	c, err := NewCodec(dialect, k, false)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// membersOf returns the members of a lease document as values, for comparison. Times are
// parsed, and positions are decoded from Base64. The store's system members and the
// member "properties", which no Java host writes, are left out.
func membersOf(t testing.TB, doc []byte) map[string]any {
	t.Helper()
	var members map[string]any
	if err := json.Unmarshal(doc, &members); err != nil {
		t.Fatalf("%v: %s", err, doc)
	}
	for _, name := range []string{"properties", "_etag", "_rid", "_self", "_attachments", "_ts"} {
		delete(members, name)
	}
	if text, ok := members["timestamp"].(string); ok {
		at, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			t.Fatal(err)
		}
		members["timestamp"] = at.Truncate(100 * time.Nanosecond) // 100 ns is .NET's precision, which every host can parse
	}
	if text, ok := members["ContinuationToken"].(string); ok && text != "" && text[0] != '"' {
		state, err := fromBase64(text)
		if err != nil {
			t.Fatal(err)
		}
		var position any
		if err := json.Unmarshal(state, &position); err != nil {
			t.Fatal(err)
		}
		members["ContinuationToken"] = position
	}
	return members
}

func TestJavaDocumentsAreReadAndWrittenAsRecorded(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "java", "*", "*.json"))
	if err != nil || len(files) < 80 {
		t.Fatalf("%d recorded documents, %v", len(files), err)
	}
	for _, file := range files {
		directory, name := filepath.Base(filepath.Dir(file)), strings.TrimSuffix(filepath.Base(file), ".json")
		if name == "lock" || name == "lock.sent" {
			continue // this codec does not read the lock
		}
		doc := golden(t, directory+"/"+name)
		c := javaCodec(t, directory, doc)
		if strings.HasPrefix(name, "marker") {
			if got, want := membersOf(t, c.Marker()), membersOf(t, doc); !reflect.DeepEqual(got, want) {
				t.Errorf("%s: the marker is %v; Java's is %v", file, got, want)
			}
			continue
		}
		l, err := c.Decode(doc)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		got, want := membersOf(t, c.Encode(l)), membersOf(t, doc)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: decoded and encoded it is\n%v; want\n%v", file, got, want)
		}
		if c.LeaseID(l.Token) != l.ID {
			t.Errorf("%s: the id of lease %s is %s; want %s", file, l.Token, c.LeaseID(l.Token), l.ID)
		}
		if err := c.check(l); err != nil {
			t.Errorf("%s: %v", file, err)
		}
		if again, err := c.Decode(c.Encode(l)); err != nil || again.Continuation != l.Continuation || again.Mode != l.Mode || again.Range != l.Range {
			t.Errorf("%s: the encoded document is decoded as %+v, %v; want %+v", file, again, err, l)
		}
	}
}

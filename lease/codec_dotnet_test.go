package lease

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// captured are documents that the .NET SDK 3.6x and the V2 library have written to a real
// account. Each has the lease that Decode must return for it, and the document that
// Encode must return for that lease.
var captured = []struct {
	name     string
	keyed    bool
	document string
	lease    Lease
	written  string
}{
	{
		name: "PK-range lease in a container keyed by /partitionKey", keyed: true,
		document: `{
  "id": "productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..0",
  "partitionKey": "productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..0",
  "version": 0,
  "_etag": "\"0200161e-0000-0800-0000-6a410bfe0000\"",
  "LeaseToken": "0",
  "FeedRange": { "Range": { "min": "", "max": "FF" } },
  "Owner": "consoleApp",
  "ContinuationToken": "\"24\"",
  "properties": {},
  "timestamp": "2026-06-28T11:56:46.335876Z",
  "Mode": "Incremental Feed",
  "_rid": "O7RwAJkpQxUCAAAAAAAAAA==", "_self": "dbs/O7RwAA==/colls/O7RwAJkpQxU=/docs/O7RwAJkpQxUCAAAAAAAAAA==/", "_attachments": "attachments/", "_ts": 1782647806
}`,
		lease: Lease{
			ID:    "productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..0",
			Token: "0", PartitionID: "0", Range: feed.Full(), Owner: "consoleApp", Continuation: `"24"`,
			Timestamp: time.Date(2026, 6, 28, 11, 56, 46, 335876000, time.UTC),
			Modified:  time.Unix(1782647806, 0).UTC(),
			ETag:      `"0200161e-0000-0800-0000-6a410bfe0000"`,
		},
		written: `{"id":"productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..0",` +
			`"partitionKey":"productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..0",` +
			`"version":0,"LeaseToken":"0","FeedRange":{"Range":{"min":"","max":"FF"}},"Owner":"consoleApp",` +
			`"ContinuationToken":"\"24\"","properties":{},"timestamp":"2026-06-28T11:56:46.335876Z","Mode":"Incremental Feed"}`,
	},
	{
		name: "EPK lease, free, never checkpointed, all versions and deletes",
		document: `{"id":"productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..05C1-0BF3","version":1,"_etag":null,
"LeaseToken":"05C1-0BF3","FeedRange":{"Range":{"min":"05C1","max":"0BF3"}},"Owner":null,"ContinuationToken":null,
"properties":{"start":"beginning","colour":"blue"},"timestamp":null,"_ts":0,"Mode":"Full-Fidelity Feed"}`,
		lease: Lease{
			ID:    "productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..05C1-0BF3",
			Token: "05C1-0BF3", Range: feed.Range{Min: "05C1", Max: "0BF3"}, Mode: feed.AllVersionsAndDeletes,
			Properties: map[string]string{"start": "beginning", "colour": "blue"},
			Modified:   time.Unix(0, 0).UTC(),
		},
		written: `{"id":"productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..05C1-0BF3",` +
			`"version":1,"LeaseToken":"05C1-0BF3","FeedRange":{"Range":{"min":"05C1","max":"0BF3"}},"Owner":null,` +
			`"ContinuationToken":null,"properties":{"colour":"blue","start":"beginning"},"timestamp":null,"Mode":"Full-Fidelity Feed"}`,
	},
	{
		name: "lease of the V2 library: PartitionId only, no version, range or mode",
		document: `{"id":"productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..17","PartitionId":"17",
"Owner":"old host","ContinuationToken":"\"7\"","properties":{},"timestamp":"2019-01-02T03:04:05.1234567Z","_ts":1546398245,"_etag":"\"a\""}`,
		lease: Lease{
			ID:    "productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..17",
			Token: "17", PartitionID: "17", Owner: "old host", Continuation: `"7"`, ETag: `"a"`,
			Timestamp: time.Date(2019, 1, 2, 3, 4, 5, 123456700, time.UTC),
			Modified:  time.Unix(1546398245, 0).UTC(),
		},
		written: `{"id":"productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..17",` +
			`"version":0,"LeaseToken":"17","PartitionId":"17","Owner":"old host",` +
			`"ContinuationToken":"\"7\"","properties":{},"timestamp":"2019-01-02T03:04:05.1234567Z","Mode":"Incremental Feed"}`,
	},
	{
		name: "stored partition key, unknown members and another form of range are kept", keyed: true,
		document: `{"id":"p..3","partitionKey":"9a2b1c00-guid","version":0,"LeaseToken":"3","FeedRange":{"PKRangeId":"3"},"Owner":"h/0123abcd",
"future":{"a":[1,2,{"b":"},"}],"c":null},"ContinuationToken":"\"9\"","properties":{},"timestamp":"2026-11-20T19:56:18.944563075Z[UTC]","Mode":"Incremental Feed","flag":true}`,
		lease: Lease{
			ID: "p..3", Token: "3", PartitionID: "3", Owner: "h/0123abcd", Continuation: `"9"`,
			Timestamp: time.Date(2026, 11, 20, 19, 56, 18, 944563075, time.UTC),
		},
		written: `{"id":"productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..3","partitionKey":"9a2b1c00-guid",` +
			`"version":0,"LeaseToken":"3","FeedRange":{"PKRangeId":"3"},"Owner":"h/0123abcd","ContinuationToken":"\"9\"","properties":{},` +
			`"timestamp":"2026-11-20T19:56:18.944563Z","Mode":"Incremental Feed","future":{"a":[1,2,{"b":"},"}],"c":null},"flag":true}`,
	},
	{
		name: "EPK lease of a merge in a container keyed by /partitionKey, flags of the range spelled out", keyed: true,
		document: `{"id":"productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..05C1-FF",
"partitionKey":"productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..05C1-FF","version":1,"_etag":"\"1\"","LeaseToken":"05C1-FF",
"FeedRange":{"Range":{"min":"05C1","max":"FF","isMinInclusive":true,"isMaxInclusive":false}},"Owner":"consoleApp","ContinuationToken":"\"24\"",
"properties":{"a":"b"},"timestamp":"2026-06-28T11:56:46+00:00","Mode":"Incremental Feed","_ts":1782647806}`,
		lease: Lease{
			ID:    "productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..05C1-FF",
			Token: "05C1-FF", Range: feed.Range{Min: "05C1", Max: "FF"}, Owner: "consoleApp", Continuation: `"24"`, ETag: `"1"`,
			Properties: map[string]string{"a": "b"}, Timestamp: time.Date(2026, 6, 28, 11, 56, 46, 0, time.UTC), Modified: time.Unix(1782647806, 0).UTC(),
		},
		written: `{"id":"productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..05C1-FF",` +
			`"partitionKey":"productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..05C1-FF",` +
			`"version":1,"LeaseToken":"05C1-FF","FeedRange":{"Range":{"min":"05C1","max":"FF"}},"Owner":"consoleApp",` +
			`"ContinuationToken":"\"24\"","properties":{"a":"b"},"timestamp":"2026-06-28T11:56:46Z","Mode":"Incremental Feed"}`,
	},
	{
		name: "lease that the V2 library and V3 wrote in turn: both names of the token",
		document: `{"id":"productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..4","version":0,"_etag":"\"b\"","LeaseToken":"4",
"PartitionId":"4","FeedRange":{"Range":{"min":"05C1","max":"0BF3"}},"Owner":null,"ContinuationToken":null,"properties":null,"timestamp":null,"Mode":"Incremental Feed"}`,
		lease: Lease{
			ID:    "productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..4",
			Token: "4", PartitionID: "4", Range: feed.Range{Min: "05C1", Max: "0BF3"}, ETag: `"b"`,
		},
		written: `{"id":"productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY=..4",` +
			`"version":0,"LeaseToken":"4","PartitionId":"4","FeedRange":{"Range":{"min":"05C1","max":"0BF3"}},"Owner":null,` +
			`"ContinuationToken":null,"properties":{},"timestamp":null,"Mode":"Incremental Feed"}`,
	},
}

func productsKey() Key {
	return Key{Processor: "productsProcessor", Identity: feed.Identity{
		AccountHost: "My-Cosmos-Tst.documents.azure.com", DatabaseRID: "O7RwAA==", ContainerRID: "O7RwAKylJbY=",
	}}
}

func dotNet(t testing.TB, keyed bool) Codec {
	t.Helper()
	d, err := NewCodec(DotNet, productsKey(), keyed)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestDotNetDocumentsAreReadAndWrittenAsCaptured(t *testing.T) {
	for _, c := range captured {
		t.Run(c.name, func(t *testing.T) {
			d := dotNet(t, c.keyed)
			got, err := d.Decode([]byte(c.document))
			if err != nil {
				t.Fatal(err)
			}
			seen := got
			seen.document = document{}
			if !equal(seen, c.lease) {
				t.Errorf("read %+v\nwant %+v", seen, c.lease)
			}
			if written := string(d.Encode(got)); written != c.written {
				t.Errorf("wrote %s\nwant  %s", written, c.written)
			}
		})
	}
}

// equal reports whether the exported fields of two leases are equal.
func equal(a, b Lease) bool {
	return maps.Equal(a.Properties, b.Properties) && a.Timestamp.Equal(b.Timestamp) && a.Modified.Equal(b.Modified) &&
		a.ID == b.ID && a.Token == b.Token && a.PartitionID == b.PartitionID && a.Range == b.Range && a.Owner == b.Owner &&
		a.Continuation == b.Continuation && a.Mode == b.Mode && a.ETag == b.ETag
}

func TestDotNetIDsLowerCaseTheHostOnly(t *testing.T) {
	d := dotNet(t, true)
	const prefix = "productsProcessormy-cosmos-tst.documents.azure.com_O7RwAA==_O7RwAKylJbY="
	for _, c := range []struct{ got, want string }{
		{d.LeasePrefix(), prefix + ".."},
		{d.LeaseID("0"), prefix + "..0"},
		{d.LeaseID(feed.Full().String()), prefix + "..-FF"},
		{d.MarkerID(), prefix + ".info"},
		{string(d.Marker()), `{"id":"` + prefix + `.info","partitionKey":"` + prefix + `.info"}`},
		{string(dotNet(t, false).Marker()), `{"id":"` + prefix + `.info"}`},
		{d.PartitionKey(Lease{Token: "4"}), prefix + "..4"},
	} {
		if c.got != c.want {
			t.Errorf("got %s, want %s", c.got, c.want)
		}
	}
}

func TestDotNetLeaseIDsExcludeTheMarkerAndOtherProcessors(t *testing.T) {
	d := dotNet(t, false)
	other := productsKey()
	other.Processor += "2"
	o, err := NewCodec(DotNet, other, false)
	if err != nil {
		t.Fatal(err)
	}
	for id, want := range map[string]bool{
		d.LeaseID("0"): true, d.LeaseID("-FF"): true, d.MarkerID(): false,
		strings.TrimSuffix(d.MarkerID(), ".info") + ".lock": false,
		o.LeaseID("0"): false, o.MarkerID(): false, "": false,
	} {
		if d.isLease(id) != want {
			t.Errorf("isLease(%q) is %v", id, !want)
		}
	}
}

func TestDotNetRefusesInvalidPrefixes(t *testing.T) {
	for _, bad := range []string{"a/b", `a\b`, "a?", "#"} {
		k := productsKey()
		k.Processor = bad
		if _, err := NewCodec(DotNet, k, false); err == nil {
			t.Errorf("processor %q was accepted", bad)
		}
	}
	for _, identity := range []feed.Identity{{}, {AccountHost: "h"}, {AccountHost: "h", DatabaseRID: "d"}, {DatabaseRID: "d", ContainerRID: "c"}} {
		if _, err := NewCodec(DotNet, Key{Processor: "p", Identity: identity}, false); err == nil {
			t.Errorf("identity %+v was accepted", identity)
		}
	}
}

func TestDotNetRefusesInvalidDocuments(t *testing.T) {
	for name, doc := range map[string]string{
		"not JSON":              `{"id":"a"`,
		"not an object":         `["LeaseToken"]`,
		"a text":                `"LeaseToken"`,
		"no token":              `{"id":"a","version":0}`,
		"unknown version":       `{"LeaseToken":"0","version":2}`,
		"unknown mode":          `{"LeaseToken":"0","Mode":"Sideways"}`,
		"owner a number":        `{"LeaseToken":"0","Owner":3}`,
		"EPK without range":     `{"LeaseToken":"7","version":1}`,
		"EPK with another form": `{"LeaseToken":"7","version":1,"FeedRange":{"PKRangeId":"7"}}`,
		"exclusive minimum":     `{"LeaseToken":"0","FeedRange":{"Range":{"min":"","max":"FF","isMinInclusive":false}}}`,
		"inclusive maximum":     `{"LeaseToken":"0","FeedRange":{"Range":{"min":"","max":"FF","isMaxInclusive":true}}}`,
		"range without maximum": `{"LeaseToken":"0","FeedRange":{"Range":{"min":""}}}`,
		"range upside down":     `{"LeaseToken":"0","FeedRange":{"Range":{"min":"B","max":"A"}}}`,
		"properties not texts":  `{"LeaseToken":"0","properties":{"a":{}}}`,
		"invalid UTF-8":         "{\"LeaseToken\":\"0\",\"Owner\":\"\xff\"}",
		"unknown invalid UTF-8": "{\"LeaseToken\":\"0\",\"x\":[\"\xff\"]}",
		"text after the object": `{"LeaseToken":"0"} {}`,
	} {
		if l, err := dotNet(t, false).Decode([]byte(doc)); err == nil {
			t.Errorf("%s: decoded as %+v", name, l)
		}
	}
}

func TestDotNetEPKLeaseWithoutRangeGetsItFromItsToken(t *testing.T) {
	l, err := dotNet(t, false).Decode([]byte(`{"LeaseToken":"-05C1","version":1}`))
	if err != nil || l.Range != (feed.Range{Max: "05C1"}) {
		t.Errorf("got %v, %v", l.Range, err)
	}
}

// FuzzDotNetDecode checks documents that Decode accepts. Encode must return a valid
// document for the lease, and decoding that must return the same lease. Encoding it again
// must return the same document.
func FuzzDotNetDecode(f *testing.F) {
	for _, c := range captured {
		f.Add([]byte(c.document), c.keyed)
	}
	f.Add([]byte(`{"LeaseToken":"\u0000\ud800\"","Owner":"\\","properties":{"\u0001":"<&>"},"x":1e5,"y":"\"}"}`), true)
	f.Fuzz(func(t *testing.T, doc []byte, keyed bool) {
		d := dotNet(t, keyed)
		first, err := d.Decode(doc)
		if err != nil {
			return
		}
		written := d.Encode(first)
		second, err := d.Decode(written)
		if err != nil {
			t.Fatalf("the encoded document %s cannot be decoded: %v", written, err)
		}
		// The ETag and the time come from the store, and the id follows from the token.
		// Do not compare them.
		second.ETag, second.Modified, second.ID = first.ETag, first.Modified, first.ID
		first.Timestamp = first.Timestamp.Truncate(100 * time.Nanosecond)
		if !equal(first, second) {
			t.Fatalf("decoded %+v, then %+v", first, second)
		}
		if again := d.Encode(second); string(again) != string(written) {
			t.Fatalf("encoded %s, then %s", written, again)
		}
	})
}

func BenchmarkDotNetDecode(b *testing.B) {
	d := dotNet(b, true)
	doc := []byte(captured[0].document)
	b.SetBytes(int64(len(doc)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := d.Decode(doc); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDotNetEncode(b *testing.B) {
	d := dotNet(b, true)
	l, err := d.Decode([]byte(captured[0].document))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		d.Encode(l)
	}
}

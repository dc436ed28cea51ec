package lease

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// decodeGolden returns the lease of a recorded document and the codec that has decoded
// it.
func decodeGolden(t testing.TB, directory, name string) (Codec, Lease) {
	t.Helper()
	doc := golden(t, directory+"/"+name)
	c := javaCodec(t, directory, doc)
	l, err := c.Decode(doc)
	if err != nil {
		t.Fatal(err)
	}
	return c, l
}

// samePosition checks that the documents of two leases have the same ContinuationToken.
func samePosition(t *testing.T, what string, c Codec, got, want Lease) {
	t.Helper()
	a, b := membersOf(t, c.Encode(got))["ContinuationToken"], membersOf(t, c.Encode(want))["ContinuationToken"]
	if !reflect.DeepEqual(a, b) {
		t.Errorf("%s: the position is\n%v; Java writes\n%v", what, a, b)
	}
}

// For the same lease, the codec must write the same first, next and child positions as a
// Java host has written.
func TestNextPositionsEqualJavas(t *testing.T) {
	for _, directory := range []string{"handleChanges", "latestVersion", "allVersions"} {
		c, checkpointed := decodeGolden(t, directory, "checkpointed")
		c.key.Identity.Database = shopOf(t, checkpointed)
		fresh := Lease{Token: checkpointed.Token, PartitionID: checkpointed.PartitionID, Range: checkpointed.Range, Mode: checkpointed.Mode}
		samePosition(t, directory+": first", c, at(fresh, checkpointed.Continuation), checkpointed)
		_, renewed := decodeGolden(t, directory, "renewed")
		samePosition(t, directory+": next", c, at(at(renewed, `"17"`), renewed.Continuation), renewed)
	}
	for _, directory := range []string{"latestVersion", "allVersions"} {
		c, child := decodeGolden(t, directory, "child-new")
		_, parent := decodeGolden(t, directory, "renewed")
		parent.Range = feed.Range{Min: child.Range.Min, Max: "FF"}
		parent.Continuation = child.Continuation
		samePosition(t, directory+": child", c, parent.Child(ForRange(child.Range)), child)
	}
}

// shopOf returns the name of the database in the link that a lease's position contains.
func shopOf(t testing.TB, l Lease) string {
	t.Helper()
	if l.document.state == "" {
		return "shop"
	}
	return strings.Split(stateRID(l.document.state), "/")[2]
}

func TestJavaDocumentsAreDecoded(t *testing.T) {
	for _, c := range []struct {
		directory, name string
		want            func(l Lease) bool
	}{
		{"handleChanges", "new", func(l Lease) bool {
			return l.Owner == "" && l.Continuation == "" && l.PartitionID == "0" && l.Range.IsZero()
		}},
		{"handleChanges", "owned", func(l Lease) bool { return l.Owner == "java-a" && l.Continuation == "" }},
		{"handleChanges", "checkpointed", func(l Lease) bool { return l.Continuation == `"18"` && l.Start(feed.Now()) == feed.After(`"18"`) }},
		{"latestVersion", "new", func(l Lease) bool {
			return l.Owner == "" && l.Continuation == "" && l.PartitionID == "" && l.Range.String() == l.Token && l.Start(feed.Beginning()) == feed.Beginning()
		}},
		{"latestVersion", "checkpointed", func(l Lease) bool { return l.Continuation == `"21"` && l.Mode == feed.LatestVersion }},
		{"latestVersion", "start-time-checkpointed", func(l Lease) bool { return !l.Start(feed.Now()).Since().IsZero() }},
		{"latestVersion", "start-now-idle", func(l Lease) bool {
			return l.Start(feed.Beginning()) == feed.After(l.Continuation) && l.Continuation != ""
		}},
		{"allVersions", "checkpointed", func(l Lease) bool { return l.Mode == feed.AllVersionsAndDeletes && l.Continuation != "" }},
		{"allVersions", "child-new", func(l Lease) bool {
			return l.Owner == "" && l.Continuation != "" && l.Mode == feed.AllVersionsAndDeletes
		}},
	} {
		if _, l := decodeGolden(t, c.directory, c.name); !c.want(l) {
			t.Errorf("%s/%s is decoded as %+v", c.directory, c.name, l)
		}
	}
}

// A Java host sends the start time that a lease stores, and the service returns later
// changes only. So a stored time must be decoded as a start one second later, and encoded
// back.
func TestStartTimeIsOneSecondAfterJavas(t *testing.T) {
	c, l := decodeGolden(t, "latestVersion", "start-time-checkpointed")
	var state struct{ StartFrom struct{ PointInTimeMs int64 } }
	if err := json.Unmarshal([]byte(l.document.state), &state); err != nil || state.StartFrom.PointInTimeMs == 0 {
		t.Fatalf("%v: %s", err, l.document.state)
	}
	since := l.Start(feed.Now()).Since()
	if since.Unix() != state.StartFrom.PointInTimeMs/1000+1 {
		t.Errorf("%d ms are decoded as %s", state.StartFrom.PointInTimeMs, since)
	}
	fresh := Lease{Token: l.Token, Range: l.Range, Continuation: `"1"`, Properties: map[string]string{PropertyStart: since.Format(time.RFC3339)}}
	again, err := c.Decode(c.Encode(fresh))
	if err != nil || !again.Start(feed.Now()).Since().Equal(since) {
		t.Errorf("%s is encoded, and decoded as %v, %v", since, again.Start(feed.Now()), err)
	}
	// A time in January 1970 must be written as the beginning, because Java refuses such
	// a small number.
	old := fresh
	old.Properties = map[string]string{PropertyStart: "1970-01-20T00:00:00Z"}
	if again, err := c.Decode(c.Encode(old)); err != nil || again.Start(feed.Now()) != feed.After(`"1"`) {
		t.Errorf("January 1970 is decoded as %v, %v", again.Start(feed.Now()), err)
	}
}

// Java decodes a position with the Base64 alphabet for URLs in one place and with the
// basic one in another. Encoded positions must be valid in both, also if the database has
// an unusual name.
func TestPositionsWithAnyNamesAreReadByBothAlphabets(t *testing.T) {
	for _, name := range []string{"shop", "a~b", "a>b", "a?>~b", "~~~", "café", "shop€", "\U0001F511", "a\x7fb", `q"uote`} {
		for pad := range 3 {
			k := testKey
			k.Identity.Database = strings.Repeat("x", pad) + name
			c, err := NewCodec(JavaLatestVersion, k, false)
			if err != nil {
				t.Fatal(err)
			}
			l := Lease{Token: "-FF", Range: feed.Full(), Continuation: feed.Continuation(`"` + name + `"`)}
			var doc struct{ ContinuationToken string }
			if err := json.Unmarshal(c.Encode(l), &doc); err != nil {
				t.Fatal(err)
			}
			if strings.ContainsAny(doc.ContinuationToken, "-_+/") || len(doc.ContinuationToken)%4 != 0 {
				t.Errorf("%q: %s cannot be decoded with both alphabets", name, doc.ContinuationToken)
			}
			text, err := base64.StdEncoding.DecodeString(doc.ContinuationToken)
			var state struct{ Rid string }
			if err != nil || json.Unmarshal(text, &state) != nil || state.Rid != "/dbs/"+k.Identity.Database+"/colls/orders" {
				t.Errorf("%q: the position is %s, %v", name, text, err)
			}
			if again, err := c.Decode(c.Encode(l)); err != nil || again.Continuation != l.Continuation {
				t.Errorf("%q: decoded as %q, %v", name, again.Continuation, err)
			}
		}
	}
}

func TestUnknownMembersOfAPositionAndADocumentAreKept(t *testing.T) {
	c := codecIn(t, JavaLatestVersion, 0)
	const state = ` {"V":1,"Rid":"AAAA","Mode":"INCREMENTAL","later":{"a":[1]},"StartFrom":{"Type":"LEGACY_CHECKPOINT"},` +
		`"Continuation":{"V":1,"Rid":"x","Continuation":[{"token":"\"1\"","range":{"min":"","max":"FF"}}],"Range":{"min":"","max":"FF"},"more":2}}`
	doc := fmt.Sprintf(`{"id":%q,"LeaseToken":"-FF","ContinuationToken":%q,"timestamp":"2026-11-20T19:56:18.944563075Z[UTC]","Owner":null,"version":1,
		"feedRange":{"Range":{"min":"","max":"FF","isMinInclusive":true,"isMaxInclusive":false}},"future":[{"a":null}]}`,
		c.LeaseID("-FF"), base64.StdEncoding.EncodeToString([]byte(state)))
	l, err := c.Decode([]byte(doc))
	if err != nil || l.Continuation != `"1"` || l.Timestamp.Year() != 2026 || l.Start(feed.Beginning()) != feed.After(`"1"`) {
		t.Fatalf("%+v, %v", l, err)
	}
	child := at(l, `"2"`).Child(ForRange(feed.Range{Max: "80"}))
	acquired := at(l, `"2"`)
	acquired.Owner = "me/00000000"
	for _, next := range []Lease{acquired, child} {
		text := string(c.Encode(next))
		got := membersOf(t, []byte(text))
		position := got["ContinuationToken"].(map[string]any)
		inner := position["Continuation"].(map[string]any)
		if fmt.Sprint(position["later"]) != "map[a:[1]]" || position["Rid"] != "AAAA" || inner["more"] != 2.0 || inner["Rid"] != "x" ||
			fmt.Sprint(position["StartFrom"]) != "map[Type:LEGACY_CHECKPOINT]" {
			t.Errorf("the position became %v", position)
		}
		want := fmt.Sprintf("[map[range:map[max:%s min:] token:\"2\"]]", next.Range.Max)
		if fmt.Sprint(inner["Continuation"]) != want || fmt.Sprint(inner["Range"]) != fmt.Sprintf("map[max:%s min:]", next.Range.Max) {
			t.Errorf("lease %s has the position %v; want %s", next.Token, inner, want)
		}
		if future := `"future":[{"a":null}]`; strings.Contains(text, future) != (next.Token == l.Token) {
			t.Errorf("lease %s became %s", next.Token, text)
		}
	}
}

// A Java host that upgrades a lease without a position writes a null position. It must be
// decoded as no position.
func TestNullIsNotAPosition(t *testing.T) {
	c := codecIn(t, JavaLatestVersion, 0)
	for state, start := range map[string]feed.Start{
		`{"V":1,"Rid":"x","Mode":"INCREMENTAL","StartFrom":{"Type":"BEGINNING"},"Continuation":{"V":1,"Rid":"x",` +
			`"Continuation":[{"token":null,"range":{"min":"","max":"FF"}}],"Range":{"min":"","max":"FF"}}}`: feed.Beginning(),
		`{"V":1,"Rid":"x","Mode":"INCREMENTAL","StartFrom":{"Type":"NOW"},"Range":{"min":"","max":"FF","isMinInclusive":true,"isMaxInclusive":false}}`: feed.Now(),
		`{"V":1,"Rid":"x","Mode":"INCREMENTAL","StartFrom":{"Type":"POINT_IN_TIME","PointInTimeMs":1700000000000}}`:                                    feed.At(time.Unix(1700000001, 0)),
	} {
		doc := fmt.Sprintf(`{"LeaseToken":"-FF","ContinuationToken":%q,"version":1,"feedRange":{"Range":{"min":"","max":"FF"}}}`, wrap(state))
		l, err := c.Decode([]byte(doc))
		if err != nil || l.Continuation != "" || l.Start(feed.After(`"9"`)) != start {
			t.Errorf("%s\nis decoded as %q, starting at %s, %v", state, l.Continuation, l.Start(feed.After(`"9"`)), err)
			continue
		}
		next, err := c.Decode(c.Encode(at(l, `"5"`)))
		if err != nil || next.Continuation != `"5"` || stateRID(next.document.state) != "x" {
			t.Errorf("%s\nat 5 becomes %+v, %v", state, next, err)
		}
	}
}

func TestJavaDialectsRefuseInvalidDocuments(t *testing.T) {
	position := func(state string) string {
		return fmt.Sprintf(`{"LeaseToken":"-FF","version":1,"feedRange":{"Range":{"min":"","max":"FF"}},"ContinuationToken":%q}`, wrap(state))
	}
	const one = `{"token":"\"1\"","range":{"min":"","max":"FF"}}`
	for name, c := range map[string]struct {
		dialect Dialect
		doc     string
		foreign Dialect
	}{
		"no token":               {JavaHandleChanges, `{"id":"a"}`, -1},
		"owner a number":         {JavaHandleChanges, `{"LeaseToken":"0","Owner":3}`, -1},
		"a wrapped position":     {JavaHandleChanges, position(`{"V":1}`), JavaLatestVersion},
		"no token of a range":    {JavaLatestVersion, `{"id":"a","feedRange":{"Range":{"min":"","max":"FF"}}}`, -1},
		"version 0":              {JavaLatestVersion, `{"LeaseToken":"-FF","version":0,"feedRange":{"Range":{"min":"","max":"FF"}}}`, -1},
		"no range":               {JavaLatestVersion, `{"LeaseToken":"0","version":1,"feedRange":null}`, -1},
		".NET's range":           {JavaLatestVersion, `{"LeaseToken":"-FF","version":1,"FeedRange":{"Range":{"min":"","max":"FF"}},"Mode":"Incremental Feed"}`, DotNet},
		"a raw position":         {JavaLatestVersion, `{"LeaseToken":"-FF","version":1,"feedRange":{"Range":{"min":"","max":"FF"}},"ContinuationToken":"\"7\""}`, DotNet},
		"not Base64":             {JavaLatestVersion, `{"LeaseToken":"-FF","version":1,"feedRange":{"Range":{"min":"","max":"FF"}},"ContinuationToken":"***"}`, DotNet},
		"position of version 2":  {JavaLatestVersion, position(`{"V":2}`), -1},
		"unknown mode":           {JavaLatestVersion, position(`{"V":1,"Mode":"SIDEWAYS"}`), -1},
		"two positions":          {JavaLatestVersion, position(`{"V":1,"Continuation":{"V":1,"Continuation":[` + one + `,` + one + `]}}`), -1},
		"no positions":           {JavaLatestVersion, position(`{"V":1,"Continuation":{"V":1,"Continuation":[]}}`), -1},
		"inner version":          {JavaLatestVersion, position(`{"V":1,"Continuation":{"V":3}}`), -1},
		"position of other form": {JavaLatestVersion, position(`{"V":1,"Continuation":{"V":1,"Continuation":7}}`), -1},
		"inner of other form":    {JavaLatestVersion, position(`{"V":1,"Continuation":[]}`), -1},
		"Java's range":           {DotNet, `{"LeaseToken":"-FF","version":1,"feedRange":{"Range":{"min":"","max":"FF"}}}`, JavaLatestVersion},
		"Java's null range":      {DotNet, `{"LeaseToken":"0","version":0,"feedRange":null}`, JavaLatestVersion},
		"Java's position":        {DotNet, `{"LeaseToken":"0","version":0,"ContinuationToken":"` + wrap(`{"V":1}`) + `"}`, JavaLatestVersion},
	} {
		l, err := codecIn(t, c.dialect, 0).Decode([]byte(c.doc))
		if err == nil {
			t.Errorf("%s: read as %+v", name, l)
			continue
		}
		foreign, ok := errors.AsType[*foreignError](err)
		if ok != (c.foreign >= 0) || ok && foreign.dialect != c.foreign {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCodecsNameTheirDocuments(t *testing.T) {
	for d, want := range map[Dialect]string{
		DotNet:            "phost.example.com_AAAA==_AAAAAAA=",
		JavaHandleChanges: "pHost.example.com_shop_orders",
		JavaLatestVersion: "pHost.example.com_AAAA==_AAAAAAA=",
	} {
		c := codecIn(t, d, 0)
		if c.LeaseID("0") != want+"..0" || c.MarkerID() != want+".info" || c.LockID() != want+".lock" || c.Dialect() != d {
			t.Errorf("%s: %s %s %s", d, c.LeaseID("0"), c.MarkerID(), c.LockID())
		}
		if prefixes := c.Prefixes(); len(prefixes) != 3 || prefixes[0] != c.LeasePrefix() {
			t.Errorf("%s lists %v", d, prefixes)
		}
		if string(c.Lock()) != `{"id":"`+want+`.lock","ttl":30}` || string(c.Marker()) != `{"id":"`+want+`.info"}` {
			t.Errorf("%s: %s %s", d, c.Lock(), c.Marker())
		}
		_, err := NewCodec(d, testKey, true)
		if _, refused := errors.AsType[*DialectError](err); refused != (d != DotNet) {
			t.Errorf("%s in a container by /partitionKey: %v", d, err)
		}
		k := testKey
		k.Mode = feed.AllVersionsAndDeletes
		_, err = NewCodec(d, k, false)
		if _, refused := errors.AsType[*DialectError](err); refused != (d == JavaHandleChanges) {
			t.Errorf("%s for all versions and deletes: %v", d, err)
		}
	}
	lower := testKey
	lower.Identity.AccountHost = "host.example.com"
	c, err := NewCodec(JavaLatestVersion, lower, false)
	if err != nil || len(c.Prefixes()) != 2 {
		t.Errorf("with a host in lower case the prefixes are %v, %v", c.Prefixes(), err)
	}
	if _, err := NewCodec(Dialect(7), lower, false); err == nil {
		t.Error("an unknown dialect has a codec")
	}
}

func TestDialectsHaveNames(t *testing.T) {
	for _, d := range []Dialect{DotNet, JavaHandleChanges, JavaLatestVersion} {
		if again, err := ParseDialect(d.Name()); err != nil || again != d {
			t.Errorf("%s is %v, %v", d.Name(), again, err)
		}
	}
	if d, err := ParseDialect(""); err != nil || d != DotNet {
		t.Errorf("the empty name is %v, %v", d, err)
	}
	if _, err := ParseDialect("java"); err == nil || !strings.Contains(err.Error(), "java-handle-changes") {
		t.Errorf("an unknown name: %v", err)
	}
}

// FuzzJavaDecode checks documents that Decode accepts. Encode must return a valid
// document for the lease, and decoding that must return the same lease. Encoding it again
// must return the same document. Both of Java's decoders must accept its position.
func FuzzJavaDecode(f *testing.F) {
	for _, name := range []string{
		"handleChanges/checkpointed", "latestVersion/new", "latestVersion/checkpointed", "latestVersion/start-time-idle",
		"allVersions/child-new", "names/name-5",
	} {
		f.Add(golden(f, name))
	}
	f.Add([]byte(`{"LeaseToken":"-FF","ContinuationToken":"` + wrap(`{"V":1,"Rid":"~>?\u007f€","StartFrom":{},"Range":{}}`) + `","properties":{"a":"b"}}`))
	f.Fuzz(func(t *testing.T, doc []byte) {
		for _, d := range javaDialects {
			c := codecIn(t, d, 0)
			first, err := c.Decode(doc)
			if err != nil {
				continue
			}
			written := c.Encode(first)
			second, err := c.Decode(written)
			if err != nil {
				t.Fatalf("the encoded document %s cannot be decoded: %v", written, err)
			}
			second.ETag, second.Modified, second.ID = first.ETag, first.Modified, first.ID
			first.Timestamp = first.Timestamp.Truncate(100 * time.Nanosecond)
			if !equal(first, second) {
				t.Fatalf("decoded %+v, then %+v", first, second)
			}
			if again := c.Encode(second); string(again) != string(written) {
				t.Fatalf("encoded %s, then %s", written, again)
			}
			moved, err := c.Decode(c.Encode(at(first, `"4711~"`)))
			if err != nil || moved.Continuation != `"4711~"` || moved.Mode != second.Mode || moved.Range != second.Range {
				t.Fatalf("at a new position, %s is decoded as %+v, %v", c.Encode(at(first, `"4711~"`)), moved, err)
			}
			var text map[string]json.RawMessage
			if d == JavaLatestVersion && json.Unmarshal(written, &text) == nil && bytes.ContainsAny(text["ContinuationToken"], "-_+/") {
				t.Fatalf("%s cannot be decoded with both alphabets", text["ContinuationToken"])
			}
		}
	})
}

var javaDialects = []Dialect{JavaHandleChanges, JavaLatestVersion}

func stateRID(text string) string {
	_, rid := stateRange(text)
	return rid
}

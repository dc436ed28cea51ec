package main

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"testing"
)

// deliver has a host print a change at a time in milliseconds.
func deliver(d *deliveries, host, at, operation, id, n string) {
	d.line([]string{"change", host, at, operation, "k", id, n})
}

func TestAChangeThatNobodyDeliveredIsMissing(t *testing.T) {
	d := newDeliveries(false)
	for n, id := range []string{"a", "b", hot + "k", hot + "k", "c"} {
		d.wrote(written{"create", "k", id, int64(n)})
	}
	d.wrote(written{"delete", "k", "c", 4})
	deliver(d, "go-a", "1", "", "a", "0")
	deliver(d, "go-a", "2", "", hot+"k", "2") // an older version: another is expected
	if got := strings.Join(d.missing(), " "); got != "b=1 hot-k=3" {
		t.Errorf("missing are %q", got)
	}
}

func TestEachVersionAndDeleteThatNobodyDeliveredIsMissing(t *testing.T) {
	d := newDeliveries(true)
	d.wrote(written{"create", "k", "a", 1})
	d.wrote(written{"replace", "k", "a", 2})
	d.wrote(written{"delete", "k", "a", 2})
	deliver(d, "java-a", "1", "create", "a", "1")
	if got := strings.Join(d.missing(), ", "); got != "replace a=2, delete a" {
		t.Errorf("missing are %q", got)
	}
}

func TestAChangeDeliveredAheadOfAnEarlierOneOfItsKeyIsFound(t *testing.T) {
	d := newDeliveries(false)
	d.wrote(written{"create", "k", "a", 1})
	d.wrote(written{"create", "k", "b", 2})
	deliver(d, "go-a", "10", "", "a", "1")
	deliver(d, "go-a", "11", "", "b", "2")
	deliver(d, "java-a", "12", "", "a", "1") // again: allowed
	if err := d.order(); err != nil {
		t.Error(err)
	}
	deliver(d, "java-a", "9", "", "b", "2")
	if d.order() == nil {
		t.Error("b was delivered before a by one host, and that wasn't found")
	}
	if d.again() != 2 {
		t.Errorf("%d deliveries were again, want 2", d.again())
	}
}

func TestALeaseThatJavaCantReadIsFound(t *testing.T) {
	good := `{"V":1,"Rid":"/dbs/d/colls/c","Mode":"INCREMENTAL","StartFrom":{"Type":"BEGINNING"},"Continuation":{"V":1,"Rid":"/dbs/d/colls/c",` +
		`"Continuation":[{"token":"\"11\"","range":{"min":"","max":"FF"}}],"Range":{"min":"","max":"FF"}}}`
	document := func(timestamp, owner, state, more string) string {
		return `{"id":"x..-FF","LeaseToken":"-FF","ContinuationToken":` + state + `,"timestamp":` + timestamp + `,"Owner":` + owner +
			`,"version":1,"feedRange":{"Range":{"min":"","max":"FF","isMinInclusive":true,"isMaxInclusive":false}}` + more + `}`
	}
	position := func(s string) string { return `"` + base64.StdEncoding.EncodeToString([]byte(s)) + `"` }
	const at = `"2026-11-21T18:15:26.581279608Z"`
	for name, c := range map[string]struct {
		document string
		fine     bool
	}{
		"as Java writes it":      {document(at, `"java-a"`, position(good), ""), true},
		"without a position":     {document(at, "null", "null", `,"properties":{}`), true},
		"no time":                {document("null", `"go-a/00000000"`, position(good), ""), false},
		"a time without a zone":  {document(`"2026-11-21T18:15:26"`, "null", "null", ""), false},
		"an empty owner":         {document(at, `""`, "null", ""), false},
		"an unknown member":      {document(at, "null", "null", `,"Mode":"Incremental Feed"`), false},
		"a raw etag":             {document(at, "null", `"\"11\""`, ""), false},
		"one alphabet only":      {document(at, "null", strings.ReplaceAll(position(strings.Replace(good, "/d/", "/a~b/", 1)), "+", "-"), ""), false},
		"a position elsewhere":   {document(at, "null", position(strings.Replace(good, `"max":"FF"`, `"max":"1F"`, 1)), ""), false},
		"a position of all mode": {document(at, "null", position(strings.Replace(good, "INCREMENTAL", "FULL_FIDELITY", 1)), ""), false},
	} {
		l := lease{raw: json.RawMessage(c.document)}
		if err := json.Unmarshal(l.raw, &l); err != nil {
			t.Fatal(err)
		}
		if err := (&scene{mode: latestVersion}).shape(l); (err == nil) != c.fine {
			t.Errorf("%s: %v", name, err)
		}
	}
}

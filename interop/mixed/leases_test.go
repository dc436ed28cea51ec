package mixed

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// lease is a lease document, with the members that the scenes compare.
type lease struct {
	ID                string
	LeaseToken        *string
	ContinuationToken *string
	Owner             *string
	Timestamp         *string
	ETag              string `json:"_etag"`
	raw               json.RawMessage
}

// timestamp matches a time as any version of Java's hosts writes it.
var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z(\[UTC\])?$`)

// ours are the members that only our hosts or the service write.
var ours = []string{"properties", "_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"}

// host returns the name of the host that owns a lease. For our hosts, it removes the "/"
// and the suffix at the end of the owner text.
func (l lease) host() string {
	if l.Owner == nil {
		return ""
	}
	name, _, _ := strings.Cut(*l.Owner, "/")
	return name
}

// leases returns the leases of the scene. It fails the test if one lacks a member of its
// mode or has an unknown one.
func (s *scene) leases() []lease {
	s.Helper()
	all, err := s.Client.Documents(s.Context(), s.leaseContainer)
	s.ok(err)
	var found []lease
	for _, raw := range all {
		l := lease{raw: raw}
		s.ok(json.Unmarshal(raw, &l))
		if l.LeaseToken == nil {
			continue // the marker, or a lock
		}
		if err := s.shape(l); err != nil {
			s.Fatalf("lease %s: %v: %s", l.ID, err, raw)
		}
		found = append(found, l)
	}
	return found
}

// shape returns an error if a lease has an unknown member, lacks a member of its mode, or
// has a position that Java's hosts cannot read.
func (s *scene) shape(l lease) error {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(l.raw, &members); err != nil {
		return err
	}
	want := []string{"id", "LeaseToken", "ContinuationToken", "timestamp", "Owner"}
	if s.mode != handleChanges {
		want = append(want, "version", "feedRange")
	}
	for _, name := range want {
		if _, there := members[name]; !there {
			return fmt.Errorf("there is no %s", name)
		}
	}
	for name := range members {
		if !slices.Contains(want, name) && !slices.Contains(ours, name) {
			return fmt.Errorf("there is a member %s", name)
		}
	}
	switch {
	case l.Timestamp == nil || !timestamp.MatchString(*l.Timestamp):
		return fmt.Errorf("its timestamp isn't one that Java's hosts can read, or null, which they take for now, always")
	case l.Owner != nil && *l.Owner == "":
		return fmt.Errorf("the owner is empty, and not null")
	case l.ContinuationToken == nil || s.mode == handleChanges:
		return nil
	}
	return s.state(*l.ContinuationToken, members["feedRange"])
}

// state returns an error if a position of Java's second dialect is malformed.
func (s *scene) state(token string, feedRange json.RawMessage) error {
	text, err := base64.StdEncoding.DecodeString(token)
	if err != nil {
		if text, err = base64.URLEncoding.DecodeString(token); err != nil {
			return fmt.Errorf("its position isn't Base64: %w", err)
		}
		return fmt.Errorf("its position can be read with one alphabet only: %s", text)
	}
	var state struct {
		V         int
		Rid, Mode string
		StartFrom struct{ Type string }
		// Continuation has exactly one position, which is for the lease's range.
		Continuation struct {
			V            int
			Rid          string
			Continuation []struct {
				Token *string
				Range struct{ Min, Max string }
			}
			Range struct{ Min, Max string }
		}
	}
	var whole struct{ Range struct{ Min, Max string } }
	if err := json.Unmarshal(text, &state); err != nil {
		return fmt.Errorf("its position: %w: %s", err, text)
	}
	if err := json.Unmarshal(feedRange, &whole); err != nil {
		return err
	}
	wantMode := "INCREMENTAL"
	if s.mode == allVersions {
		wantMode = "FULL_FIDELITY"
	}
	in := state.Continuation
	switch {
	case state.V != 1 || in.V != 1 || state.Rid == "" || in.Rid == "" || state.StartFrom.Type == "" || state.Mode != wantMode,
		len(in.Continuation) != 1 || in.Continuation[0].Range != whole.Range || in.Range != whole.Range:
		return fmt.Errorf("its position isn't one of Java's: %s", text)
	case !bytes.Contains(feedRange, []byte(`"isMinInclusive":true`)) || !bytes.Contains(feedRange, []byte(`"isMaxInclusive":false`)):
		return fmt.Errorf("its range has no flags")
	}
	return nil
}

// settled waits until there are the given number of leases, and each of the given hosts,
// and no other, owns a fair share of them.
func (s *scene) settled(leases int, hosts ...string) {
	s.Helper()
	var last string
	if !eventually(func() bool {
		all, counts := s.leases(), map[string]int{}
		for _, l := range all {
			counts[l.host()]++
		}
		last = fmt.Sprintf("%d leases, of %v", len(all), counts)
		if len(all) != leases || len(counts) != len(hosts) {
			return false
		}
		return !slices.ContainsFunc(hosts, func(h string) bool {
			return counts[h] < leases/len(hosts) || counts[h] > (leases+len(hosts)-1)/len(hosts)
		})
	}) {
		s.Fatalf("%d leases are not shared by %v after %s; there are %s", leases, hosts, patience, last)
	}
	s.logf("%s", last)
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

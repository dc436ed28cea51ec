package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A lease is a document of a scene's lease container.
type lease struct {
	ID                string
	LeaseToken        *string
	ContinuationToken *string
	Owner             *string
	Timestamp         *string
	ETag              string `json:"_etag"`
	raw               json.RawMessage
}

// timestamp is a time as Java's hosts of any version write it.
var timestamp = regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{1,9})?Z(\[UTC\])?$`)

// ours are the members that only our hosts write, or the service adds.
var ours = []string{"properties", "_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"}

// host is the name of the host that owns a lease; our owner texts end in "/" and a suffix.
func (l lease) host() string {
	if l.Owner == nil {
		return ""
	}
	name, _, _ := strings.Cut(*l.Owner, "/")
	return name
}

// leases returns the leases of the scene. It checks that each has the members of its mode.
func (s *scene) leases(ctx context.Context) ([]lease, error) {
	all, err := s.Client.Documents(ctx, s.leaseContainer)
	if err != nil {
		return nil, err
	}
	var found []lease
	for _, raw := range all {
		l := lease{raw: raw}
		if err := json.Unmarshal(raw, &l); err != nil {
			return nil, fmt.Errorf("%w: %s", err, raw)
		}
		if l.LeaseToken == nil {
			continue // the marker, or a lock
		}
		if err := s.shape(l); err != nil {
			return nil, fmt.Errorf("lease %s: %w: %s", l.ID, err, raw)
		}
		found = append(found, l)
	}
	return found, nil
}

// shape returns an error if a lease has a member that is neither the mode's nor ours, lacks one, or
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

// state checks a position of the second dialect.
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
		// Continuation has one position, for the range of the lease.
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

// settled waits until there are this many leases, and these hosts alone own a fair share each.
func (s *scene) settled(ctx context.Context, leases int, hosts ...string) error {
	var last string
	err := s.eventually(ctx, func() (bool, error) {
		all, err := s.leases(ctx)
		if err != nil {
			return false, err
		}
		counts := map[string]int{}
		for _, l := range all {
			counts[l.host()]++
		}
		last = fmt.Sprintf("%d leases, of %v", len(all), counts)
		if len(all) != leases || len(counts) != len(hosts) {
			return false, nil
		}
		for _, h := range hosts {
			if n := counts[h]; n < leases/len(hosts) || n > (leases+len(hosts)-1)/len(hosts) {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		return fmt.Errorf("%d leases are to be shared by %v; there are %s: %w", leases, hosts, last, err)
	}
	s.logf("%s", last)
	return nil
}

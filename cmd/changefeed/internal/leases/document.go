package leases

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Document is a document of the lease container.
type Document struct {
	// ID and Key are its address. In a container that is partitioned by /partitionKey,
	// two documents may have the same ID and different Keys.
	ID, Key string
	// ETag is its version, which a write compares.
	ETag string
	// Modified is its _ts.
	Modified time.Time
	// TTL is its time to live. The zero value means none.
	TTL time.Duration
	// Body is its text, including system properties.
	Body json.RawMessage
}

// parseDocument returns the document with the text body. keyed reports whether the
// container is partitioned by /partitionKey.
func parseDocument(body []byte, keyed bool) (Document, error) {
	var head struct {
		ID           string  `json:"id"`
		PartitionKey *string `json:"partitionKey"`
		ETag         string  `json:"_etag"`
		TS           int64   `json:"_ts"`
		TTL          float64 `json:"ttl"`
	}
	if err := json.Unmarshal(body, &head); err != nil {
		return Document{}, err
	}
	d := Document{ID: head.ID, Key: head.ID, ETag: head.ETag, Modified: time.Unix(head.TS, 0).UTC(), TTL: time.Duration(head.TTL * float64(time.Second)), Body: body}
	if keyed && head.PartitionKey != nil {
		d.Key = *head.PartitionKey
	}
	return d, nil
}

// name is the parsed id of a lease document.
type name struct {
	// prefix is the id before ".." (a lease), ".info" (the marker) or ".lock".
	prefix string
	// processor and host are the beginning of the prefix. Both are empty if the host is
	// not the one by which the account was opened: then the border between them is
	// unknown.
	processor, host string
	// byNames reports whether the prefix contains the container's name instead of its
	// rid.
	byNames bool
	// rest is the part after the prefix.
	rest string
}

const (
	markerSuffix = ".info"
	lockSuffix   = ".lock"
	leaseSuffix  = ".."
)

// infixes returns the part that the ids of all leases for a monitored container have in
// common. rids is the form with resource ids, and names is the form with names.
func infixes(id feed.Identity) (rids, names string) {
	return "_" + id.DatabaseRID + "_" + id.ContainerRID, "_" + id.Database + "_" + id.Container
}

// parseName parses the id of a lease document. ok is false if the id does not belong to
// the leases of the monitored container.
func parseName(id string, monitored feed.Identity) (n name, ok bool) {
	rids, names := infixes(monitored)
	for _, infix := range []string{rids, names} {
		for at := 0; ; {
			i := strings.Index(id[at:], infix)
			if i < 0 {
				break
			}
			end := at + i + len(infix)
			at += i + 1
			rest := id[end:]
			if !strings.HasPrefix(rest, leaseSuffix) && rest != markerSuffix && rest != lockSuffix {
				continue
			}
			n = name{prefix: id[:end], rest: rest, byNames: infix == names}
			head, host := id[:end-len(infix)], monitored.AccountHost
			if cut := len(head) - len(host); cut >= 0 && strings.EqualFold(head[cut:], host) {
				n.processor, n.host = head[:cut], head[cut:]
			}
			return n, true
		}
	}
	return name{}, false
}

// decodeState decodes a continuation that is a state of Java's second dialect: JSON in
// base64, in either alphabet, with or without padding. ok is false for other
// continuations.
func decodeState(token string) (text []byte, ok bool) {
	if token == "" || token[0] == '"' {
		return nil, false
	}
	plain := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(token, "="))
	text, err := base64.RawStdEncoding.DecodeString(plain)
	return text, err == nil && len(text) > 0 && text[0] == '{'
}

// member is a member of a JSON object: its name and its value.
type member struct {
	name  string
	value json.RawMessage
}

// members returns the members of a JSON document in their order. If the document is
// invalid, it returns those before the first error.
func members(doc []byte) []member {
	var all []member
	d := jsontext.NewDecoder(bytes.NewReader(doc))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return nil
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			break
		}
		name := t.String()
		value, err := d.ReadValue()
		if err != nil {
			break
		}
		all = append(all, member{name, json.RawMessage(value.Clone())})
	}
	return all
}

// hasRange reports whether a lease document contains its range of keys in the form of its
// dialect.
func hasRange(body []byte, d lease.Dialect) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return false
	}
	member := "FeedRange"
	if d == lease.JavaLatestVersion {
		member = "feedRange"
	}
	var r struct{ Range json.RawMessage }
	return json.Unmarshal(members[member], &r) == nil && len(r.Range) > 0 && string(r.Range) != "null"
}

// byV2 reports whether hosts of .NET's V2 library write a document. They name the token
// PartitionId, and drop a range that a host of V3 has written, because each of their leases
// is for the partition that it names.
func byV2(body []byte) bool {
	return slices.ContainsFunc(members(body), func(m member) bool { return m.name == "PartitionId" })
}

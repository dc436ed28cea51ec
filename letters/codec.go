package letters

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// These are the values of a document's member type.
const (
	typeLetter = "letter"
	typePart   = "part"
)

// document is the JSON of a letter. docs/letters.md documents its members.
type document struct {
	ID        string          `json:"id"`
	PK        string          `json:"pk"`
	Type      string          `json:"type"`
	State     State           `json:"state"`
	Processor string          `json:"processor"`
	Account   string          `json:"account"`
	Source    string          `json:"source"`
	Database  string          `json:"database,omitempty"`
	Container string          `json:"container,omitempty"`
	Key       json.RawMessage `json:"key"`
	Hash      string          `json:"hash"`
	Item      string          `json:"item"`
	LSN       int64           `json:"lsn"`
	Place     int             `json:"place"`
	Index     int             `json:"index"`
	Sequence  string          `json:"sequence"`
	Time      time.Time       `json:"time,omitzero"`
	Operation string          `json:"operation"`
	Expired   bool            `json:"expired,omitempty"`
	Current   json.RawMessage `json:"current,omitempty"`
	Previous  json.RawMessage `json:"previous,omitempty"`
	Parts     int             `json:"parts,omitempty"`
	Error     string          `json:"error"`
	Stack     string          `json:"stack,omitempty"`
	Attempts  int             `json:"attempts"`
	Host      string          `json:"host"`
	Lease     string          `json:"lease"`
	First     time.Time       `json:"first,omitzero"`
	Last      time.Time       `json:"last,omitzero"`
	ETag      string          `json:"_etag,omitempty"`
}

// documentOf returns the document of a letter that Key.letter has completed.
func documentOf(l Letter) document {
	return document{
		ID: l.ID, PK: l.Group, Type: typeLetter, State: l.State,
		Processor: l.Processor, Account: l.Source.Account, Source: l.Source.RID, Database: l.Database, Container: l.Container,
		Key: json.RawMessage(l.PartitionKey.String()), Hash: l.Hash, Item: l.ItemID, LSN: l.LSN, Place: l.Place, Index: l.Index, Sequence: l.Sequence,
		Time: l.Time.UTC(), Operation: l.Operation.String(), Expired: l.Expired, Current: l.Current, Previous: l.Previous, Parts: l.Parts,
		Error: l.Error, Stack: l.Stack, Attempts: l.Attempts, Host: l.Host, Lease: l.Lease, First: l.First.UTC(), Last: l.Last.UTC(),
	}
}

// encode returns v as JSON without HTML's escapes, so that a text has the length that textSize
// returns.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

var errType = errors.New("it is no letter")

// Decode returns the letter in a document, without what its parts hold. Every member that is
// missing leaves its field zero.
func Decode(text []byte) (Letter, error) {
	var d document
	if err := json.Unmarshal(text, &d); err != nil {
		return Letter{}, fmt.Errorf("decode a letter: %w", err)
	}
	fail := func(err error) (Letter, error) { return Letter{}, fmt.Errorf("decode letter %s: %w", d.ID, err) }
	if d.Type != typeLetter {
		return fail(errType)
	}
	l := Letter{
		ID: d.ID, Group: d.PK, Sequence: d.Sequence, ETag: d.ETag, Parts: d.Parts,
		Processor: d.Processor, Source: feed.ContainerID{Account: d.Account, RID: d.Source}, Database: d.Database, Container: d.Container,
		Hash: d.Hash, ItemID: d.Item, LSN: d.LSN, Place: d.Place, Index: d.Index, Time: d.Time, Expired: d.Expired,
		Current: d.Current, Previous: d.Previous, State: d.State, Error: d.Error, Stack: d.Stack, Attempts: d.Attempts,
		Host: d.Host, Lease: d.Lease, First: d.First, Last: d.Last,
	}
	var err error
	if len(d.Key) > 0 && string(d.Key) != "null" {
		if l.PartitionKey, err = feed.ParsePartitionKey(string(d.Key)); err != nil {
			return fail(err)
		}
	}
	if l.Operation, err = parseOp(d.Operation); err != nil {
		return fail(err)
	}
	return l, nil
}

// MarshalJSON returns the letter's document, with Current and Previous even if parts hold them.
func (l Letter) MarshalJSON() ([]byte, error) { return encode(documentOf(l)) }

// UnmarshalJSON is [Decode].
func (l *Letter) UnmarshalJSON(text []byte) (err error) {
	*l, err = Decode(text)
	return err
}

// parseOp is the inverse of feed.Op.String.
func parseOp(text string) (feed.Op, error) {
	for _, op := range []feed.Op{feed.Upsert, feed.Create, feed.Replace, feed.Delete} {
		if op.String() == text {
			return op, nil
		}
	}
	return 0, fmt.Errorf("its operation is %q", text)
}

// updated returns a stored document with the fields of l that an update changes. Members that
// somebody else has added remain, but the system's are left out, since the engine sets them.
func updated(stored []byte, l Letter) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(stored, &members); err != nil {
		return nil, err
	}
	for _, system := range []string{"_rid", "_self", "_etag", "_attachments", "_ts"} {
		delete(members, system)
	}
	for name, value := range map[string]any{
		"state": l.State, "error": cut(l.Error), "stack": cut(l.Stack), "attempts": l.Attempts, "host": l.Host, "lease": l.Lease, "last": l.Last.UTC(),
	} {
		text, err := encode(value)
		if err != nil {
			return nil, err
		}
		members[name] = text
	}
	return encode(members)
}

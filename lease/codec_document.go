package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// document is what Decode keeps of a document besides the Lease's fields, so that
// it is written back.
type document struct {
	partitionKey string // the member's value; empty: there was none
	partitionID  bool   // it had the member PartitionId, the V2 library's name of LeaseToken
	feedRange    string // a FeedRange that says no range of keys
	state        string // JavaLatestVersion: what the position is wrapped in, as JSON
	unknown      string // members unknown to us: "name":value,"name":value
}

// reading is a lease document while it is read.
type reading struct {
	Lease
	// position is ContinuationToken as it is written.
	position string
}

// read reads a document: each gets every member that doesn't mean the same in all
// dialects, and says whether it knows it. One that nobody knows is kept.
func read(doc []byte, each func(r *reading, m member) (known bool, err error)) (reading, error) {
	var r reading
	err := scan(doc, func(m member) error {
		known, err := r.common(m)
		if !known && err == nil {
			known, err = each(&r, m)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.key, err)
		}
		if !known {
			r.document.unknown = m.appendTo(r.document.unknown)
		}
		return nil
	})
	return r, err
}

// common reads a member that means the same in all dialects.
func (r *reading) common(m member) (known bool, err error) {
	switch string(m.key) {
	case "id":
		r.ID, err = m.text()
	case "LeaseToken":
		r.Token, err = m.text()
	case "Owner":
		r.Owner, err = m.text()
	case "ContinuationToken":
		r.position, err = m.text()
	case "properties":
		r.Properties, err = m.properties()
	case "timestamp":
		r.Timestamp = m.time()
	case "_etag":
		r.ETag, err = m.text()
	case "_ts":
		var seconds int
		seconds, err = m.integer()
		r.Modified = time.Unix(int64(seconds), 0).UTC()
	case "_rid", "_self", "_attachments", "_lsn":
	default:
		return false, nil
	}
	return true, err
}

var errTokenless = errors.New("it has no LeaseToken")

// raw takes the position of the dialects that write it as the feed has it.
func (r *reading) raw() error {
	if isWrapped(r.position) {
		return &foreignError{JavaLatestVersion}
	}
	r.Continuation = feed.Continuation(r.position)
	return nil
}

// timestamp writes the member of that name.
func (w *writer) timestamp(t time.Time) {
	if t.IsZero() {
		w.raw("timestamp", "null")
		return
	}
	w.text("timestamp", t.UTC().Format(timestampLayout))
}

// timestampLayout has at most the 7 digits that a .NET date has, and the zone that
// Java wants.
const timestampLayout = "2006-01-02T15:04:05.9999999Z07:00"

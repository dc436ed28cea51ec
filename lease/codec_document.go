package lease

import (
	"errors"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// document holds the parts of a lease document that have no field in Lease. Encode writes
// them back.
type document struct {
	partitionKey string // the value of the member partitionKey; empty if there was none
	partitionID  bool   // the document names the token PartitionId, as the V2 library did
	feedRange    string // the JSON text of a FeedRange that is not a range of keys
	state        string // the JSON text that contains the position, in JavaLatestVersion
	unknown      string // the unknown members: "name":value,"name":value
}

// reading is the state of the parser of one lease document.
type reading struct {
	Lease
	// position is the value of the member ContinuationToken.
	position string
}

// read parses a lease document. It calls each with every member whose meaning depends on
// the dialect. If each returns false, read keeps the member as an unknown one.
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

// common parses a member that has the same meaning in all dialects. It returns false for
// any other member.
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

var errTokenless = errors.New("no LeaseToken")

// raw sets the lease's position to the value of ContinuationToken. It is for dialects
// that store the feed's own text.
func (r *reading) raw() error {
	if isWrapped(r.position) {
		return &foreignError{JavaLatestVersion}
	}
	r.Continuation = feed.Continuation(r.position)
	return nil
}

// timestamp writes the member "timestamp".
func (w *writer) timestamp(t time.Time) {
	if t.IsZero() {
		w.raw("timestamp", "null")
		return
	}
	w.text("timestamp", t.UTC().Format(timestampLayout))
}

// timestampLayout has at most 7 fractional digits of a second, as .NET writes them. It
// has a time zone, which Java requires.
const timestampLayout = "2006-01-02T15:04:05.9999999Z07:00"

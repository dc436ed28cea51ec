package lease

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

const (
	incremental  = "Incremental Feed"
	fullFidelity = "Full-Fidelity Feed"
)

// Versions of lease documents: which kind of range the lease is for.
const (
	versionPartition = 0
	versionRange     = 1
)

// Encode writes the lease's document, as .NET orders its members, then the ones
// unknown to us that it was read with. System properties (_etag, _ts ...) are the
// store's to write and left out. A new lease gets its id from its token.
func (c Codec) Encode(l Lease) []byte {
	w := writer{buf: make([]byte, 0, 512)}
	w.text("id", c.id(l))
	if c.keyed {
		w.text("partitionKey", c.PartitionKey(l))
	}
	if l.PartitionID != "" {
		w.raw("version", "0")
	} else {
		w.raw("version", "1")
	}
	w.text("LeaseToken", l.Token)
	if l.document.partitionID {
		w.text("PartitionId", l.Token)
	}
	switch {
	case !l.Range.IsZero():
		w.feedRange(l.Range)
	case l.document.feedRange != "":
		w.raw("FeedRange", l.document.feedRange)
	}
	w.textOrNull("Owner", l.Owner)
	w.textOrNull("ContinuationToken", string(l.Continuation))
	w.properties(l.Properties)
	if l.Timestamp.IsZero() {
		w.raw("timestamp", "null")
	} else {
		w.text("timestamp", l.Timestamp.UTC().Format(timestampLayout))
	}
	if l.Mode == feed.AllVersionsAndDeletes {
		w.text("Mode", fullFidelity)
	} else {
		w.text("Mode", incremental)
	}
	w.members(l.document.unknown)
	return w.end()
}

// timestampLayout has at most the 7 digits that a .NET date has.
const timestampLayout = "2006-01-02T15:04:05.9999999Z07:00"

// document is what Decode keeps of a document besides the Lease's fields, so that
// it is written back.
type document struct {
	partitionKey string // the member's value; empty: there was none
	partitionID  bool   // it had the member PartitionId, the V2 library's name of LeaseToken
	feedRange    string // a FeedRange that says no range of keys
	unknown      string // members unknown to us: "name":value,"name":value
}

// Decode reads a lease document. Unlike .NET it keeps members unknown to it.
func (c Codec) Decode(doc []byte) (Lease, error) {
	l, err := decodeDotNet(doc)
	if err != nil {
		return Lease{}, fmt.Errorf("decode lease document: %w", err)
	}
	return l, nil
}

func decodeDotNet(doc []byte) (Lease, error) {
	var l Lease
	var version int
	var v2Token, mode string
	err := scan(doc, func(m member) (err error) {
		switch string(m.key()) {
		case "id":
			l.ID, err = m.text()
		case "partitionKey":
			l.document.partitionKey, err = m.text()
		case "version":
			version, err = m.integer()
		case "LeaseToken":
			l.Token, err = m.text()
		case "PartitionId":
			v2Token, err = m.text()
		case "FeedRange":
			l.Range, l.document.feedRange, err = m.feedRange()
		case "Owner":
			l.Owner, err = m.text()
		case "ContinuationToken":
			var c string
			c, err = m.text()
			l.Continuation = feed.Continuation(c)
		case "properties":
			l.Properties, err = m.properties()
		case "timestamp":
			l.Timestamp = m.time()
		case "Mode":
			mode, err = m.text()
		case "_etag":
			l.ETag, err = m.text()
		case "_ts":
			var seconds int
			seconds, err = m.integer()
			l.Modified = time.Unix(int64(seconds), 0).UTC()
		case "_rid", "_self", "_attachments", "_lsn":
		default:
			l.document.unknown = m.appendTo(l.document.unknown)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.key(), err)
		}
		return nil
	})
	if err != nil {
		return Lease{}, err
	}
	return l, l.settle(version, v2Token, mode)
}

// settle checks the members against each other, once all were read.
func (l *Lease) settle(version int, v2Token, mode string) error {
	if v2Token != "" {
		l.Token, l.document.partitionID = v2Token, true
	}
	if l.Token == "" {
		return errors.New("it has no LeaseToken")
	}
	switch mode {
	case "", incremental:
		l.Mode = feed.LatestVersion
	case fullFidelity:
		l.Mode = feed.AllVersionsAndDeletes
	default:
		return fmt.Errorf("field Mode: %q is unknown", mode)
	}
	switch version {
	case versionPartition:
		l.PartitionID = l.Token
	case versionRange:
		if l.Range.IsZero() {
			l.Range = tokenRange(l.Token)
		}
		if l.Range.IsZero() {
			return fmt.Errorf("FeedRange: a lease of version 1 needs one, and %q is no range", l.Token)
		}
	default:
		return fmt.Errorf("version: %d is unknown", version)
	}
	return nil
}

// tokenRange reads the token of an EPK lease, "min-max".
func tokenRange(token string) feed.Range {
	lower, upper, ok := strings.Cut(token, "-")
	if !ok || lower >= upper {
		return feed.Range{}
	}
	return feed.Range{Min: lower, Max: upper}
}

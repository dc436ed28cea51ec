package lease

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// DotNet is the codec of lease documents as the .NET change feed processor writes
// them, which Azure Functions and KEDA read too. A document store's adapter uses
// it for the ids it reads and writes and for the documents' bodies; other dialects
// get a codec of their own. One store holds one dialect.
//
//	prefix      {processor}{account host}_{database rid}_{container rid}
//	lease id    prefix + ".." + lease token
//	marker id   prefix + ".info"
//
// It is a value and safe for concurrent use.
type DotNet struct {
	prefix string
	keyed  bool
}

// NewDotNet returns the codec for one processor's documents. partitionKeyField
// tells that the lease container is partitioned by /partitionKey and not by /id:
// the documents then have that member. It is an error when the id of a document
// would be one that document stores don't take.
func NewDotNet(k Key, partitionKeyField bool) (DotNet, error) {
	if k.Identity.AccountHost == "" || k.Identity.DatabaseRID == "" || k.Identity.ContainerRID == "" {
		return DotNet{}, errors.New("lease ids need the account host, the database's rid and the container's rid")
	}
	// .NET takes the host from a Uri, which lower-cases it.
	prefix := k.Processor + strings.ToLower(k.Identity.AccountHost) + "_" + k.Identity.DatabaseRID + "_" + k.Identity.ContainerRID
	if at := strings.IndexAny(prefix, `/\?#`); at >= 0 {
		return DotNet{}, fmt.Errorf("lease id prefix %q holds %q, which a document id can't", prefix, prefix[at:at+1])
	}
	return DotNet{prefix: prefix, keyed: partitionKeyField}, nil
}

// LeasePrefix is what the ids of this processor's leases begin with, and no other
// document's do.
func (d DotNet) LeasePrefix() string { return d.prefix + ".." }

// LeaseID is the id of the lease with that token.
func (d DotNet) LeaseID(token string) string { return d.prefix + ".." + token }

// MarkerID is the id of the document that says that the store is initialised.
func (d DotNet) MarkerID() string { return d.prefix + ".info" }

// IsLease reports whether the document of that id is one of this processor's leases.
func (d DotNet) IsLease(id string) bool { return strings.HasPrefix(id, d.LeasePrefix()) }

// Marker is the marker's document.
func (d DotNet) Marker() []byte {
	w := writer{}
	w.text("id", d.MarkerID())
	if d.keyed {
		w.text("partitionKey", d.MarkerID())
	}
	return w.end()
}

// PartitionKey is the value by which the lease's document is addressed: its id,
// or the member partitionKey of a document that was read with another one (.NET
// wrote a random one before version 3.59).
func (d DotNet) PartitionKey(l Lease) string {
	if l.document.partitionKey != "" && d.keyed {
		return l.document.partitionKey
	}
	return d.id(l)
}

// id is the id that the lease's document has, or gets when it is created.
func (d DotNet) id(l Lease) string {
	if d.IsLease(l.ID) {
		return l.ID
	}
	return d.LeaseID(l.Token)
}

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
func (d DotNet) Encode(l Lease) []byte {
	w := writer{buf: make([]byte, 0, 512)}
	w.text("id", d.id(l))
	if d.keyed {
		w.text("partitionKey", d.PartitionKey(l))
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
func (d DotNet) Decode(doc []byte) (Lease, error) {
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

package lease

import (
	"fmt"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
)

const (
	incremental  = "Incremental Feed"
	fullFidelity = "Full-Fidelity Feed"
)

// These are the values of a lease document's member "version". They distinguish PK-range
// leases from EPK leases.
const (
	versionPartition = 0
	versionRange     = 1
)

// encodeDotNet writes the members of l in the order in which .NET writes them.
func (c Codec) encodeDotNet(l Lease) []byte {
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
	w.timestamp(l.Timestamp)
	if l.Mode == feed.AllVersionsAndDeletes {
		w.text("Mode", fullFidelity)
	} else {
		w.text("Mode", incremental)
	}
	w.members(l.document.unknown)
	return w.end()
}

func decodeDotNet(doc []byte) (Lease, error) {
	var version int
	var v2Token, mode string
	java := false
	r, err := read(doc, func(r *reading, m member) (_ bool, err error) {
		switch string(m.key) {
		case "partitionKey":
			r.document.partitionKey, err = m.text()
		case "version":
			version, err = m.integer()
		case "PartitionId":
			v2Token, err = m.text()
		case "FeedRange":
			r.Range, r.document.feedRange, err = m.feedRange()
		case "Mode":
			mode, err = m.text()
		case "feedRange":
			java = true
			return false, nil
		default:
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return Lease{}, err
	}
	if java && r.Range.IsZero() {
		return Lease{}, &foreignError{JavaLatestVersion}
	}
	if err := r.raw(); err != nil {
		return Lease{}, err
	}
	return r.Lease, r.settle(version, v2Token, mode)
}

// settle sets the token, mode, partition and range of l after all members were read. Each
// depends on several members. settle returns an error if the members contradict each
// other.
func (l *Lease) settle(version int, v2Token, mode string) error {
	if v2Token != "" {
		l.Token, l.document.partitionID = v2Token, true
	}
	if l.Token == "" {
		return errTokenless
	}
	switch mode {
	case "", incremental:
		l.Mode = feed.LatestVersion
	case fullFidelity:
		l.Mode = feed.AllVersionsAndDeletes
	default:
		return fmt.Errorf("unknown Mode %q", mode)
	}
	switch version {
	case versionPartition:
		l.PartitionID = l.Token
	case versionRange:
		if l.Range.IsZero() {
			l.Range = tokenRange(l.Token)
		}
		if l.Range.IsZero() {
			return fmt.Errorf("FeedRange: a lease of version 1 needs a range, and %q is not one", l.Token)
		}
	default:
		return fmt.Errorf("unknown version %d", version)
	}
	return nil
}

// tokenRange parses the token of an EPK lease, "min-max". It returns the zero Range for
// other tokens.
func tokenRange(token string) feed.Range {
	lower, upper, ok := strings.Cut(token, "-")
	if !ok || lower >= upper {
		return feed.Range{}
	}
	return feed.Range{Min: lower, Max: upper}
}

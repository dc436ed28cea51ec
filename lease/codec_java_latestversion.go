package lease

import (
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
)

// encodeLatestVersion writes the members of l as a Java host does, in its order, and then
// "properties". A Java host ignores that member and drops it with its next write.
func (c Codec) encodeLatestVersion(l Lease) []byte {
	w := writer{buf: make([]byte, 0, 1024)}
	w.text("id", c.id(l))
	w.text("LeaseToken", l.Token)
	w.textOrNull("ContinuationToken", wrap(c.state(l)))
	w.timestamp(l.Timestamp)
	w.textOrNull("Owner", l.Owner)
	w.raw("version", "1")
	w.name("feedRange")
	w.buf = append(append(append(w.buf, `{"Range":`...), fullRange(l.Range)...), '}')
	w.properties(l.Properties)
	w.members(l.document.unknown)
	return w.end()
}

// decodeLatestVersion parses a lease for a range of keys. A document without a position
// does not contain the mode, so the lease gets the configured mode.
func (c Codec) decodeLatestVersion(doc []byte) (Lease, error) {
	version, other := versionRange, false
	r, err := read(doc, func(r *reading, m member) (_ bool, err error) {
		switch string(m.key) {
		case "version":
			version, err = m.integer()
		case "feedRange":
			r.Range, r.document.feedRange, err = m.feedRange()
		case "FeedRange", "Mode", "PartitionId":
			other = true
			return false, nil
		default:
			return false, nil
		}
		return true, err
	})
	if err != nil {
		return Lease{}, err
	}
	l := r.Lease
	switch {
	case other && l.Range.IsZero(), r.position != "" && !isWrapped(r.position):
		return Lease{}, &foreignError{DotNet}
	case l.Token == "":
		return Lease{}, errTokenless
	case version != versionRange:
		return Lease{}, fmt.Errorf("version: %d is not the version of a lease for a range", version)
	case l.Range.IsZero():
		if l.Range = tokenRange(l.Token); l.Range.IsZero() {
			return Lease{}, fmt.Errorf("feedRange: a lease needs a range, and %q is not one", l.Token)
		}
	}
	l.Mode = c.key.Mode
	if r.position == "" {
		return l, nil
	}
	s, err := unwrap(r.position)
	if err != nil {
		return Lease{}, fmt.Errorf("ContinuationToken: %w", err)
	}
	l.Mode, l.Continuation, l.document.state = s.mode, s.position, s.text
	return l, nil
}

// state returns the JSON text that contains l's position, before it is encoded in Base64.
// It is empty if l has no position.
func (c Codec) state(l Lease) string {
	if l.document.state == "" {
		if l.Continuation == "" {
			return ""
		}
		return c.newState(l)
	}
	return rewriteState(l.document.state, l.Continuation, l.Range)
}

// newState returns the state text of a lease's first position. It also contains the start
// from which that position was read. If that start is a time, every later read sends it
// too.
func (c Codec) newState(l Lease) string {
	from := l.Start(c.key.Start)
	if l.Continuation != "" {
		unread := l
		unread.Continuation = ""
		from = unread.Start(c.key.Start)
	}
	mode := "INCREMENTAL"
	if l.Mode == feed.AllVersionsAndDeletes {
		mode, from = "FULL_FIDELITY", feed.Now()
	}
	link := "/dbs/" + c.key.Identity.Database + "/colls/" + c.key.Identity.Container
	inner, outer := writer{}, writer{}
	inner.raw("V", "1")
	inner.text("Rid", link)
	inner.raw("Continuation", positions(l.Continuation, l.Range))
	inner.raw("Range", fullRange(l.Range))
	outer.raw("V", "1")
	outer.text("Rid", link)
	outer.text("Mode", mode)
	outer.raw("StartFrom", startFrom(from))
	outer.raw("Continuation", string(inner.end()))
	return string(outer.end())
}

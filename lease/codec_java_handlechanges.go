package lease

import "github.com/changefeed-go/changefeed/feed"

// handleChangesRemedy is the remedy for leases that the dialect JavaHandleChanges cannot
// store.
const handleChangesRemedy = "use the dialect \"java-latest-version\": a Java host built with handleLatestVersionChanges upgrades these leases " +
	"while none of the old hosts runs, before partitions are merged; `changefeed leases convert` converts them"

// encodeHandleChanges writes the members of l as a Java host does, in its order, and then
// "properties". A Java host ignores that member and drops it with its next write.
func (c Codec) encodeHandleChanges(l Lease) []byte {
	w := writer{buf: make([]byte, 0, 512)}
	w.text("id", c.id(l))
	w.text("LeaseToken", l.Token)
	w.textOrNull("ContinuationToken", string(l.Continuation))
	w.timestamp(l.Timestamp)
	w.textOrNull("Owner", l.Owner)
	w.properties(l.Properties)
	w.members(l.document.unknown)
	return w.end()
}

// decodeHandleChanges parses a lease. Its document has no range. The lease covers the
// partition whose id is the token.
func decodeHandleChanges(doc []byte) (Lease, error) {
	r, err := read(doc, func(*reading, member) (bool, error) { return false, nil })
	if err != nil {
		return Lease{}, err
	}
	if r.Token == "" {
		return Lease{}, errTokenless
	}
	if err := r.raw(); err != nil {
		return Lease{}, err
	}
	r.PartitionID, r.Mode = r.Token, feed.LatestVersion
	return r.Lease, nil
}

package lease

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Conversion is what [Convert] makes of a processor's leases.
type Conversion struct {
	// Steps are the leases to create, in the order of their ranges, each with the
	// one that it is made of.
	Steps []Step
	// Notes say, for people, what the new leases don't carry on.
	Notes []string
}

// Step is one lease of a [Conversion].
type Step struct {
	// From is the lease as it was read.
	From Lease
	// To is the lease to create: free, not wanted by anybody, at the same position.
	To Lease
	// Before and After are their documents.
	Before, After []byte
}

// ImpossibleError names a lease that another dialect has no form for.
type ImpossibleError struct {
	// Token is the lease's.
	Token string
	// Reason says why, and what would help.
	Reason string
}

// Error names the lease and the reason.
func (e *ImpossibleError) Error() string {
	return "lease " + e.Token + " can't be converted: " + e.Reason
}

// Convert makes of a processor's leases those of another dialect. It is pure: l is
// what a store of from lists, to the codec for the leases to be made, partitions
// those that live now, and now the time to write into the documents. What is
// impossible is refused as a whole: the error joins an [*ImpossibleError] for each
// such lease.
//
//	from               to DotNet                        to JavaHandleChanges                     to JavaLatestVersion
//	DotNet             -                                whole partitions alone: same token       range and wrapped position
//	JavaHandleChanges  same token, with range and mode  -                                        as Java's own upgrade does it
//	JavaLatestVersion  range, or a partition's id       whole partitions alone, latest version   -
//
// The caller does the rest, in this order: no host of the source runs (no lease is
// live); the target has neither a marker nor leases; the target's lock is taken; the
// leases of Steps are created; then the marker; what was written is read again; the
// source's leases are deleted, and its marker stays, so that a forgotten host finds a
// store that is initialised and has nothing to do. Where from and to have the same
// [Codec.LeasePrefix] they can't be in one lease container.
func Convert(from, to Codec, l Listing, partitions []feed.Partition, now time.Time) (Conversion, error) {
	c := converter{from: from, to: to, partitions: partitions, now: now.UTC()}
	switch {
	case from.dialect == to.dialect:
		return Conversion{}, fmt.Errorf("the leases are in %s already", to.dialect)
	case l.Initialized.IsZero():
		return Conversion{}, errors.New("the source has no marker (.info): its leases were never complete, or there are none")
	}
	var impossible []error
	for _, u := range l.Unreadable {
		impossible = append(impossible, &ImpossibleError{u.Token, "its document can't be understood: " + u.Err.Error()})
	}
	found := l.Leases
	l = l.WithRanges(partitions)
	for i := range l.Leases {
		if err := c.add(found[i], l.Leases[i]); err != nil {
			impossible = append(impossible, err)
		}
	}
	if err := errors.Join(impossible...); err != nil {
		return Conversion{}, err
	}
	c.note(l)
	slices.SortFunc(c.out.Steps, func(a, b Step) int {
		return cmp.Or(cmp.Compare(a.To.Range.Min, b.To.Range.Min), cmp.Compare(b.To.Range.Max, a.To.Range.Max))
	})
	return c.out, nil
}

type converter struct {
	from, to   Codec
	partitions []feed.Partition
	now        time.Time
	out        Conversion
	filtered   bool // some lease leaves out what is older than a time
	now304     bool // some lease starts now and has no position
}

// add converts the lease that was found, which is l with its range.
func (c *converter) add(found, l Lease) error {
	if rid := c.from.key.Identity.ContainerRID; l.strange(c.from.dialect, rid) {
		return &ImpossibleError{l.Token, fmt.Sprintf("its position is one in container %s, which was deleted; the container is %s now", l.Properties[PropertyContainer], rid)}
	}
	to, err := c.place(l)
	if err != nil {
		return err
	}
	for _, s := range c.out.Steps {
		if s.To.Token == to.Token {
			return &ImpossibleError{l.Token, fmt.Sprintf("it and lease %s would become one, %s, at two positions; repair the leases first", s.From.Token, to.Token)}
		}
	}
	to.Continuation, to.Mode = l.Continuation, l.Mode
	to.Properties = c.properties(l)
	to.Timestamp = c.now
	c.carryStart(l, &to)
	if err := c.to.Check(to); err != nil {
		return &ImpossibleError{l.Token, err.Error()}
	}
	c.out.Steps = append(c.out.Steps, Step{From: found, To: to, Before: c.from.Encode(found), After: c.to.Encode(to)})
	return nil
}

// properties are those of l that the new lease keeps.
func (c *converter) properties(l Lease) map[string]string {
	l = l.without(PropertyWanted)
	if c.from.dialect == JavaHandleChanges {
		l = l.without(PropertyContainer)
	}
	return l.Stamped(c.to.dialect, c.to.key.Identity.ContainerRID).Properties
}

// place is the new lease's token, and its range or partition.
func (c *converter) place(l Lease) (Lease, error) {
	exact := slices.IndexFunc(c.partitions, func(p feed.Partition) bool { return p.Range == l.Range && !l.Range.IsZero() })
	const unknown = "its document has no range, and its partition is gone: it was merged, or its container isn't the one it was made for"
	switch c.to.dialect {
	case JavaHandleChanges:
		switch {
		case l.Mode == feed.AllVersionsAndDeletes:
			return Lease{}, &ImpossibleError{l.Token, "it is for all versions and deletes, which " + c.to.dialect.String() + " doesn't have"}
		case l.PartitionID != "":
			if l.Range.IsZero() {
				return Lease{}, &ImpossibleError{l.Token, unknown}
			}
			return Lease{Token: l.PartitionID, PartitionID: l.PartitionID, Range: l.Range}, nil
		case exact < 0:
			return Lease{}, &ImpossibleError{l.Token, "its range is not that of one partition, and " + c.to.dialect.String() + " has leases for whole partitions alone"}
		}
		return ForPartition(c.partitions[exact]), nil
	case DotNet:
		switch {
		case l.Range.IsZero():
			return Lease{}, &ImpossibleError{l.Token, unknown}
		case l.PartitionID != "":
			return Lease{Token: l.PartitionID, PartitionID: l.PartitionID, Range: l.Range}, nil
		case exact >= 0:
			return ForPartition(c.partitions[exact]), nil
		}
	case JavaLatestVersion:
		if l.Range.IsZero() {
			return Lease{}, &ImpossibleError{l.Token, unknown}
		}
	}
	return ForRange(l.Range), nil
}

// carryStart brings along where the lease was started, which Java's second dialect
// has beside the position and the others, without a position, in the properties.
func (c *converter) carryStart(from Lease, to *Lease) {
	start, known := stateStart(from.document.state)
	if !known {
		return
	}
	c.filtered = c.filtered || start.Kind() == feed.StartTime && to.Continuation != ""
	c.now304 = c.now304 || start.Kind() == feed.StartNow && to.Continuation == ""
	if to.Continuation == "" {
		*to = to.StartingAt(start)
	}
}

// note says what is lost.
func (c *converter) note(l Listing) {
	note := func(format string, args ...any) { c.out.Notes = append(c.out.Notes, fmt.Sprintf(format, args...)) }
	if c.filtered {
		note("the leases were started at a time, which goes along with each read in %s alone: after a merge of partitions, changes that are older may be delivered",
			c.from.dialect)
	}
	if c.now304 {
		note("leases that start now have no position yet; \"now\" will be when the new leases are first read")
	}
	startless, unowned, members := 0, 0, false
	for _, s := range c.out.Steps {
		if s.To.Continuation == "" && s.To.Properties[PropertyStart] == "" {
			startless++
		}
		if s.From.Owner != "" {
			unowned++
		}
		members = members || s.From.document.unknown != "" || s.From.document.partitionID
	}
	if startless > 0 {
		note("%d leases have no position: they start where the new hosts are configured to start", startless)
	}
	if unowned > 0 {
		note("%d leases have an owner, who must not run any more: the new ones are free", unowned)
	}
	if members {
		note("members of the documents that are unknown, or those of an older library, are not carried over")
	}
	for _, gap := range gaps(l.Leases) {
		note("no lease covers the range %s; a host of the new leases will see that, and make one from the start", gap)
	}
}

// gaps are the ranges that no lease covers.
func gaps(leases []Lease) []feed.Range {
	var ranges, gaps []feed.Range
	for i := range leases {
		if leases[i].Range.IsZero() {
			return nil // it counts as covering everything
		}
		ranges = append(ranges, leases[i].Range)
	}
	slices.SortFunc(ranges, func(a, b feed.Range) int { return cmp.Compare(a.Min, b.Min) })
	end := feed.Full().Min
	for _, r := range append(ranges, feed.Range{Min: feed.Full().Max, Max: feed.Full().Max}) {
		if r.Min > end {
			gaps = append(gaps, feed.Range{Min: end, Max: r.Min})
		}
		end = max(end, r.Max)
	}
	return gaps
}

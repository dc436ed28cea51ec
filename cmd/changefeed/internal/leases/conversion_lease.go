package leases

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// convertedLease is a lease of the source, converted to the other dialect.
type convertedLease struct {
	from lease.Lease
	// to is the new lease. It has the position of from, no owner, and no hand-over
	// request.
	to lease.Lease
	// before and after are the documents of from and to.
	before, after []byte
}

// converter converts the leases of a survey to another dialect. In the table, "whole" means
// that only leases of whole partitions can be converted:
//
//	from               to DotNet               to JavaHandleChanges   to JavaLatestVersion
//	DotNet             -                       whole: same token      range and wrapped position
//	JavaHandleChanges  same token, with        -                      as Java's own upgrade
//	                   range and mode
//	JavaLatestVersion  range, or a             whole and latest       -
//	                   partition's id          version only
type converter struct {
	source Survey
	to     lease.Codec
	made   []convertedLease
	// notes describe the properties that the new leases do not keep.
	notes []string
	// startTime reports whether some lease has both a position and a start time. startNow
	// reports whether some lease without a position starts at now.
	startTime, startNow bool
}

// convertLeases converts all leases of a survey, or none. Its error names each lease that
// the other dialect cannot represent. The leases are in the order of their ranges.
func convertLeases(source Survey, to lease.Codec) (made []convertedLease, notes []string, err error) {
	if source.Marker == nil {
		return nil, nil, errors.New("the source has no marker (.info): its leases were never complete, or there are none")
	}
	c := &converter{source: source, to: to}
	var impossible []error
	for _, u := range source.Unreadable {
		impossible = append(impossible, cannotConvert(u.Token, "its document cannot be read: %w", u.Err))
	}
	items := slices.Clone(source.Items)
	sortItems(items)
	for _, i := range items {
		if err := c.add(i.Lease); err != nil {
			impossible = append(impossible, err)
		}
	}
	if err := errors.Join(impossible...); err != nil {
		return nil, nil, err
	}
	c.note()
	return c.made, c.notes, nil
}

func cannotConvert(token, format string, args ...any) error {
	return fmt.Errorf("cannot convert lease %s: %w", token, fmt.Errorf(format, args...))
}

// add converts a lease and adds it to the results.
func (c *converter) add(l lease.Lease) error {
	from := c.source.Codec
	if protocol.Strange(l, from.Dialect(), c.source.Container) != nil {
		return cannotConvert(l.Token, "its position belongs to container %s, which was deleted; the container is now %s", l.Properties[lease.PropertyContainer], c.source.Container)
	}
	to, err := c.fresh(l)
	if err != nil {
		return err
	}
	for _, m := range c.made {
		if m.to.Token == to.Token {
			return cannotConvert(l.Token, "it and lease %s would become one lease, %s, with two positions; repair the leases first", m.from.Token, to.Token)
		}
	}
	to.Continuation, to.Mode, to.Timestamp = l.Continuation, l.Mode, c.source.Now.UTC()
	to.Properties = maps.Clone(l.Properties)
	delete(to.Properties, lease.PropertyWanted)
	if from.Dialect() == lease.JavaHandleChanges {
		delete(to.Properties, lease.PropertyContainer)
	}
	if from.Dialect() == lease.JavaLatestVersion {
		to = c.withStart(to, l)
	}
	if to, err = c.to.New(to); err != nil {
		return cannotConvert(l.Token, "%w", err)
	}
	c.made = append(c.made, convertedLease{from: l, to: to, before: from.Encode(l), after: c.to.Encode(to)})
	return nil
}

// fresh returns a new lease for the keys of l, without a position. It returns an error if
// the other dialect cannot represent such a lease.
func (c *converter) fresh(l lease.Lease) (lease.Lease, error) {
	exact := slices.IndexFunc(c.source.Partitions, func(p feed.Partition) bool { return p.Range == l.Range })
	switch {
	case l.Range.IsZero():
		return l, cannotConvert(l.Token, "its document has no range, and its partition does not exist: the partition was merged, or the lease belongs to another container")
	case c.to.Dialect() == lease.JavaLatestVersion:
	case l.PartitionID != "":
		return lease.ForPartition(feed.Partition{ID: l.PartitionID, Range: l.Range}), nil
	case exact >= 0:
		return lease.ForPartition(c.source.Partitions[exact]), nil
	}
	return lease.ForRange(l.Range), nil
}

// withStart returns to with the start of from. Java's second dialect stores the start
// beside the position. The other dialects store it in the properties, without a position.
func (c *converter) withStart(to, from lease.Lease) lease.Lease {
	if from.Continuation != "" {
		c.startTime = c.startTime || !from.Start(feed.Now()).Since().IsZero()
		return to
	}
	c.startNow = c.startNow || from.Start(feed.Beginning()).Kind() == feed.StartNow
	return protocol.StartingAt(to, from.Start(feed.Now()))
}

// note adds the notes about properties of the source's leases that the new leases do not
// keep.
func (c *converter) note() {
	note := func(format string, args ...any) { c.notes = append(c.notes, fmt.Sprintf(format, args...)) }
	from := c.source.Codec
	if c.startTime {
		note("the leases were started at a time; only %s sends it with each read, so older changes may be delivered after a merge of partitions",
			from.Dialect())
	}
	if c.startNow {
		note("leases that start now have no position yet; \"now\" will be the time when the new leases are first read")
	}
	known := members(from.Encode(lease.ForRange(feed.Full())))
	startless, owned, unknown := 0, 0, false
	for _, m := range c.made {
		if m.to.Continuation == "" && m.to.Properties[lease.PropertyStart] == "" {
			startless++
		}
		if m.from.Owner != "" {
			owned++
		}
		for _, have := range members(m.before) {
			unknown = unknown || !slices.ContainsFunc(known, func(k member) bool { return k.name == have.name })
		}
	}
	if startless > 0 {
		note("%s at the configured start of the new hosts", view.Plural(startless, "lease has no position; it starts", "leases have no position; they start"))
	}
	if owned > 0 {
		note("%s an owner; that host must not run any more, and the new leases are free", view.Plural(owned, "lease has", "leases have"))
	}
	if unknown {
		note("members of the documents that are unknown, or that an older library wrote, are not copied")
	}
	for _, gap := range gaps(c.source.Items, feed.Full()) {
		note("no lease covers the range %s; a host of the new leases will create one at its configured start", gap)
	}
}

// difference describes the change from one lease document to another, with a line for
// each member: - marks a member that is removed, and + one that is added. It decodes the
// position of Java's second dialect.
func difference(before, after []byte) []string {
	was, is := lines(before), lines(after)
	var all []string
	for _, line := range was {
		mark := "-"
		if slices.Contains(is, line) {
			mark = " "
		}
		all = append(all, mark+" "+line)
	}
	for _, line := range is {
		if !slices.Contains(was, line) {
			all = append(all, "+ "+line)
		}
	}
	return all
}

// lines returns the members of a document, one line for each.
func lines(doc []byte) []string {
	var all []string
	for _, m := range members(doc) {
		value := m.value
		var token string
		if m.name == "ContinuationToken" && json.Unmarshal(value, &token) == nil {
			if state, ok := decodeState(token); ok {
				value = state
			}
		}
		var compact bytes.Buffer
		if json.Compact(&compact, value) == nil {
			value = compact.Bytes()
		}
		all = append(all, fmt.Sprintf("%s: %s", m.name, value))
	}
	return all
}

package leases

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/balance"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// This file finds keys that no lease covers, and keys that several leases cover.

func (f *finder) orphans() {
	for _, i := range slices.Clone(f.items) {
		i, there := f.now(i) // the repair of an earlier orphan may have changed or removed i
		if !there || i.PartitionID == "" || f.known(i.PartitionID) {
			continue
		}
		f.found(Orphan, []string{i.Token}, fmt.Sprintf("lease %s is for a partition that is neither live nor an ancestor of a live one", i.Token), func() error {
			f.remove(i, fmt.Sprintf("delete lease %s (%s)", i.Token, Position(i.Lease)))
			if i.Range.IsZero() {
				return nil // the keys are unknown; the search for holes fills the gap
			}
			return f.inherit(i)
		})
	}
}

// merged finds leases whose ranges are unknown after a merge, so that their hosts cannot
// continue.
func (f *finder) merged() {
	for _, i := range f.items {
		if i.PartitionID == "" || f.live(i.PartitionID) {
			continue
		}
		var stuck *lease.DialectError
		if _, _, err := balance.Children(f.survey.Codec.Dialect(), i.Lease, f.survey.Partitions); errors.As(err, &stuck) {
			f.add(Finding{Kind: MergedPartition, Tokens: []string{i.Token}, Text: stuck.Found, Remedy: stuck.Remedy})
		}
	}
}

// known reports whether a partition is live, or is an ancestor of a live one.
func (f *finder) known(id string) bool {
	return slices.ContainsFunc(f.survey.Partitions, func(p feed.Partition) bool { return p.ID == id || slices.Contains(p.Parents, id) })
}

// inherit plans that other leases cover the keys of a removed lease. Each lease that has
// some of these keys moves back if its position is later. New leases cover the keys that
// no lease has.
func (f *finder) inherit(gone Item) error {
	for _, heir := range slices.Clone(f.items) {
		if !heir.Range.Overlaps(gone.Range) {
			continue
		}
		order, err := older(gone.Lease, heir.Lease)
		if err != nil {
			return err
		}
		if order < 0 {
			f.setBack(heir, gone.Lease)
		}
	}
	start, ok := startOf(gone.Lease)
	if !ok {
		if len(gaps(f.items, gone.Range)) == 0 {
			return nil
		}
		return fmt.Errorf("lease %s has no position of its own, and keys that no other lease covers: set a position with `changefeed leases reset`", gone.Token)
	}
	return f.cover(gone.Range, start, gone.Mode, "it resumes where "+gone.Token+" was")
}

// families finds parents that still exist beside their children.
func (f *finder) families() {
	for _, parent := range slices.Clone(f.items) {
		parent, there := f.now(parent) // the repair of an earlier parent may have changed or removed this one
		if !there {
			continue
		}
		var tokens []string
		var youngest time.Duration = 1 << 62
		for _, i := range f.items {
			if protocol.IsAncestor(parent.Lease, i.Lease) {
				tokens = append(tokens, i.Token)
				if !i.created {
					youngest = min(youngest, f.survey.Age(i.Lease))
				}
			}
		}
		if len(tokens) == 0 {
			continue
		}
		if lasting := 2 * f.survey.Terms.Expiration; youngest < lasting {
			f.report.Notes = append(f.report.Notes, fmt.Sprintf("lease %s is beside %s, created %s ago: a split in progress; it is damage if it lasts for another %s",
				parent.Token, strings.Join(tokens, ", "), youngest.Round(time.Second), (lasting-youngest).Round(time.Second)))
			continue
		}
		f.found(BesideParent, append([]string{parent.Token}, tokens...), fmt.Sprintf("lease %s still exists beside its children %s, which wait for its end", parent.Token, strings.Join(tokens, ", ")), func() error {
			f.remove(parent, fmt.Sprintf("delete lease %s (%s)", parent.Token, Position(parent.Lease)))
			return f.inherit(parent)
		})
	}
}

// overlaps finds pairs of leases that cover the same keys although neither is the other's
// ancestor.
func (f *finder) overlaps() {
	for again := true; again; {
		again = false
		for n, a := range f.items {
			for _, b := range f.items[n+1:] {
				if !a.Range.Overlaps(b.Range) || protocol.IsAncestor(a.Lease, b.Lease) || protocol.IsAncestor(b.Lease, a.Lease) || f.reported(a, b) {
					continue
				}
				shared := a.Range.Intersect(b.Range)
				f.foundAt(Finding{
					Kind: Overlap, Tokens: []string{a.Token, b.Token}, Ranges: []Keys{Keys(shared)},
					Text: fmt.Sprintf("leases %s and %s both cover %s", a.Token, b.Token, shared),
				}, func() error { return f.disentangle(a, b) })
				again = true
				break
			}
			if again {
				break // the loops start again, because the repair has changed the leases
			}
		}
	}
}

// reported reports whether the overlap of two leases is among the findings. Without this
// check, overlaps would find an overlap that cannot be repaired again, without end.
func (f *finder) reported(a, b Item) bool {
	return slices.ContainsFunc(f.report.Findings, func(o Finding) bool {
		return o.Kind == Overlap && slices.Equal(o.Tokens, []string{a.Token, b.Token})
	})
}

// disentangle plans changes after which two overlapping leases no longer overlap. The
// keys that they share resume at the older of the two positions.
func (f *finder) disentangle(a, b Item) error {
	order, err := older(a.Lease, b.Lease)
	if err != nil {
		return err
	}
	oldest := a
	if order > 0 {
		oldest = b
	}
	if a.Range == b.Range {
		keep, drop := a, b
		if f.live(b.PartitionID) && !f.live(a.PartitionID) {
			keep, drop = b, a
		}
		f.setBack(keep, oldest.Lease)
		f.remove(drop, fmt.Sprintf("delete lease %s (%s)", drop.Token, Position(drop.Lease)))
		return nil
	}
	shared := a.Range.Intersect(b.Range)
	f.remove(a, fmt.Sprintf("delete lease %s (%s)", a.Token, Position(a.Lease)))
	f.remove(b, fmt.Sprintf("delete lease %s (%s)", b.Token, Position(b.Lease)))
	start, ok := startOf(oldest.Lease)
	if !ok {
		return fmt.Errorf("lease %s has no position of its own: set a position with `changefeed leases reset`", oldest.Token)
	}
	if err := f.cover(shared, start, oldest.Mode, "it resumes where "+oldest.Token+" was"); err != nil {
		return err
	}
	if err := f.inherit(a); err != nil {
		return err
	}
	return f.inherit(b)
}

// live reports whether a partition is live.
func (f *finder) live(id string) bool {
	return slices.ContainsFunc(f.survey.Partitions, func(p feed.Partition) bool { return p.ID == id })
}

// gaps returns the parts of the processor's range that no lease of the draft covers.
func (f *finder) gaps() []feed.Range { return gaps(f.items, f.options.Range.OrFull()) }

// gaps returns the parts of r that no lease in items covers.
func gaps(items []Item, r feed.Range) []feed.Range {
	all := make([]lease.Lease, len(items))
	for n, i := range items {
		all[n] = i.Lease
	}
	return balance.Gaps(all, r)
}

func (f *finder) holes() {
	mode, _ := f.mode()
	for _, gap := range f.gaps() {
		f.foundAt(Finding{Kind: Hole, Ranges: []Keys{Keys(gap)}, Text: fmt.Sprintf("no lease covers %s: no host reads its changes", gap)}, func() error {
			switch {
			case f.uncertain():
				return fmt.Errorf("first repair the documents that cannot be read or are of another dialect: they may cover it")
			case len(f.survey.Items) == 0:
				return fmt.Errorf("there is a marker, but no lease: hosts create the leases again; for a first start delete the marker with `changefeed leases delete --all`, or restore exported leases with `changefeed leases import`")
			}
			start, why := f.options.Start, "the hole had no position"
			if mode == feed.AllVersionsAndDeletes {
				start, why = feed.Now(), "versions written since the hole appeared are lost, because the feed of all versions and deletes cannot be read from an earlier time"
			}
			return f.cover(gap, start, mode, why)
		})
	}
}

// Marked returns the start at which hosts that start from now fill a hole: the time of
// the marker, minus a second, because times are truncated to seconds. It returns false if
// there is no marker.
func (s Survey) Marked() (feed.Start, bool) {
	if s.Marker == nil {
		return feed.Start{}, false
	}
	return feed.At(s.Marker.Modified.Add(-time.Second)), true
}

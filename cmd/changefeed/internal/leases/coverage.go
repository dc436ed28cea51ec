package leases

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/balance"
	"github.com/changefeed-go/changefeed/lease"
)

// What leases cover: each key once, by a lease that somebody can read.

func (f *finder) orphans() {
	for _, i := range slices.Clone(f.items) {
		i, there := f.now(i) // an earlier orphan may have set it back
		if !there || i.PartitionID == "" || f.known(i.PartitionID) {
			continue
		}
		f.found(Orphan, []string{i.Token}, fmt.Sprintf("lease %s is for a partition that the container doesn't have and never split or merged into those it has", i.Token), func() error {
			f.remove(i, fmt.Sprintf("delete lease %s (%s)", i.Token, Position(i.Lease)))
			if i.Range.IsZero() {
				return nil // what it covered alone is a hole, and closed as one
			}
			return f.inherit(i)
		})
	}
}

// merged finds leases that their hosts can't go on with, because after a merge nobody can tell what they are for.
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

// known reports whether a partition lives, or is an ancestor of one that does.
func (f *finder) known(id string) bool {
	return slices.ContainsFunc(f.survey.Partitions, func(p feed.Partition) bool { return p.ID == id || slices.Contains(p.Parents, id) })
}

// inherit gives the keys of a lease that is gone to whoever else has them, who goes back where it is ahead, and to
// new leases where nobody has them.
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
		return fmt.Errorf("lease %s has no position of its own, and keys that nobody else covers: set one with `changefeed leases reset`", gone.Token)
	}
	return f.cover(gone.Range, start, gone.Mode, "it goes on where "+gone.Token+" was")
}

// families finds parents that were not deleted when their children were made.
func (f *finder) families() {
	for _, parent := range slices.Clone(f.items) {
		parent, there := f.now(parent) // an earlier one may have set it back
		if !there {
			continue
		}
		var tokens []string
		var youngest time.Duration = 1 << 62
		for _, i := range f.items {
			if parent.AncestorOf(i.Lease) {
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
			f.report.Notes = append(f.report.Notes, fmt.Sprintf("lease %s is beside %s, made %s ago: a split under way; it is damage when it is still so in %s",
				parent.Token, strings.Join(tokens, ", "), youngest.Round(time.Second), (lasting-youngest).Round(time.Second)))
			continue
		}
		f.found(BesideParent, append([]string{parent.Token}, tokens...), fmt.Sprintf("lease %s is still there beside its children %s, which wait for its end", parent.Token, strings.Join(tokens, ", ")), func() error {
			f.remove(parent, fmt.Sprintf("delete lease %s (%s)", parent.Token, Position(parent.Lease)))
			return f.inherit(parent)
		})
	}
}

// overlaps finds keys that two leases have, of which neither is the other's parent.
func (f *finder) overlaps() {
	for again := true; again; {
		again = false
		for n, a := range f.items {
			for _, b := range f.items[n+1:] {
				if !a.Range.Overlaps(b.Range) || a.AncestorOf(b.Lease) || b.AncestorOf(a.Lease) || f.reported(a, b) {
					continue
				}
				f.found(Overlap, []string{a.Token, b.Token}, fmt.Sprintf("leases %s and %s both cover %s", a.Token, b.Token, a.Range.Intersect(b.Range)), func() error {
					return f.disentangle(a, b)
				})
				again = true
				break
			}
			if again {
				break // the draft has changed
			}
		}
	}
}

// reported tells that an overlap is among the findings, so that one which can't be
// repaired isn't found for ever.
func (f *finder) reported(a, b Item) bool {
	return slices.ContainsFunc(f.report.Findings, func(o Finding) bool {
		return o.Kind == Overlap && slices.Equal(o.Tokens, []string{a.Token, b.Token})
	})
}

// disentangle makes of two leases that share keys such that don't: the shared keys go
// on at the older position.
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
		return fmt.Errorf("lease %s has no position of its own: set one with `changefeed leases reset`", oldest.Token)
	}
	if err := f.cover(shared, start, oldest.Mode, "it goes on where "+oldest.Token+" was"); err != nil {
		return err
	}
	if err := f.inherit(a); err != nil {
		return err
	}
	return f.inherit(b)
}

// live reports whether a partition lives.
func (f *finder) live(id string) bool {
	return slices.ContainsFunc(f.survey.Partitions, func(p feed.Partition) bool { return p.ID == id })
}

// gaps are the parts of the processor's range that no lease of the draft covers.
func (f *finder) gaps() []feed.Range { return gaps(f.items, f.options.Range.OrFull()) }

// gaps returns the parts of r that none of the leases covers.
func gaps(items []Item, r feed.Range) []feed.Range {
	var covered []feed.Range
	for _, i := range items {
		if i.Range.IsZero() {
			return nil // it may cover anything
		}
		covered = append(covered, i.Range)
	}
	slices.SortFunc(covered, func(a, b feed.Range) int { return strings.Compare(a.Min, b.Min) })
	var gaps []feed.Range
	end := r.Min
	for _, c := range covered {
		if c.Min > end && end < r.Max {
			gaps = append(gaps, feed.Range{Min: end, Max: min(c.Min, r.Max)})
		}
		end = max(end, c.Max)
	}
	if end < r.Max {
		gaps = append(gaps, feed.Range{Min: end, Max: r.Max})
	}
	return gaps
}

func (f *finder) holes() {
	mode, _ := f.mode()
	for _, gap := range f.gaps() {
		f.found(Hole, nil, fmt.Sprintf("no lease covers %s: nobody reads its changes", gap), func() error {
			switch {
			case f.uncertain():
				return fmt.Errorf("first see to the documents that can't be read or are of another dialect: they may cover it")
			case len(f.survey.Items) == 0:
				return fmt.Errorf("there is a marker, and no lease at all: hosts make the leases anew; `changefeed leases delete --all` removes the marker for a first start, `changefeed leases import` brings exported ones back")
			}
			start, why := f.options.Start, "the hole had no position"
			if mode == feed.AllVersionsAndDeletes {
				start, why = feed.Now(), "versions written since the hole was made are lost, because all versions and deletes can't be read from an earlier time"
			}
			return f.cover(gap, start, mode, why)
		})
	}
}

// Marked is where hosts that start from now heal a hole: when the marker was made, less
// a second, because times are cut to seconds.
func (s Survey) Marked() (feed.Start, bool) {
	if s.Marker == nil {
		return feed.Start{}, false
	}
	return feed.At(s.Marker.Modified.Add(-time.Second)), true
}

package replicate

import (
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
)

// plan is what a batch comes to for one document of the source.
type plan struct {
	document
	// gone: the document was deleted; it has no body, and maybe no target key.
	gone bool
	// left are the keys of the target, by their texts, under which the document was
	// before, and isn't at last.
	left map[string]feed.PartitionKey
	// search: where else the document is has to be looked up by its id.
	search bool
	// there: the target is likely to have the document at its key already.
	there bool
	// changes is how many changes were collapsed.
	changes int
}

// rules are what decides about plans.
type rules struct {
	shape
	// rekeyed: the target is keyed by other properties.
	rekeyed bool
	// moves: documents whose key may have changed are looked up.
	moves bool
	// empty: the target had no document when the replication began, and the ranges of
	// the source ended at ends.
	empty bool
	ends  []end
}

// end is the last LSN of a range of the source.
type end struct {
	feed.Range
	lsn int64
}

// first reports whether changes of a range up to some LSN were made before the
// replication began into an empty target: no copy of their documents was made
// under another key, because the feed shows a document at its last write only. LSNs
// go on where a partition is split.
func (r rules) first(rng feed.Range) (upTo int64) {
	if !r.empty {
		return -1
	}
	known := false
	for _, e := range r.ends {
		if e.Overlaps(rng) && (!known || e.lsn < upTo) {
			upTo, known = e.lsn, true
		}
	}
	if !known {
		return -1
	}
	return upTo
}

// collapse makes plans of changes of a range, one for each document, in the order in which
// documents were first changed. unsure counts documents that may be doubled because
// they aren't looked up.
func (r rules) collapse(rng feed.Range, changes []feed.Change) (plans []*plan, unsure int, err error) {
	upTo := r.first(rng)
	byName := make(map[string]*plan, len(changes))
	for _, c := range changes {
		next, previous, err := r.read(c)
		if err != nil {
			return nil, 0, fmt.Errorf("change at LSN %d: %w", c.LSN, err)
		}
		name := next.source.String() + "\x00" + next.id
		p := byName[name]
		if p == nil {
			p = &plan{left: map[string]feed.PartitionKey{}}
			byName[name] = p
			plans = append(plans, p)
		} else if !p.gone {
			p.leave(p.target)
		}
		p.changes++
		p.document, p.gone = next, c.Current == nil
		if !r.rekeyed {
			continue
		}
		first := c.Op == feed.Upsert && c.LSN <= upTo
		if previous != nil {
			p.leave(previous.target)
		}
		switch {
		case c.Op == feed.Create, previous != nil:
		case first:
		case r.moves:
			p.search = true
		default:
			unsure++
		}
		p.there = p.there || c.Op != feed.Create && !first
	}
	for _, p := range plans {
		if !p.gone {
			delete(p.left, p.target.String())
		}
	}
	return plans, unsure, nil
}

// leave notes a place where the document was.
func (p *plan) leave(key feed.PartitionKey) { p.left[key.String()] = key }

// read takes a change apart: the document after it, of which a delete has id and
// source key alone, and the one before it, if the feed tells.
func (r rules) read(c feed.Change) (next document, previous *document, err error) {
	if c.Previous != nil {
		d, err := r.parse(c.Previous)
		if err != nil {
			return document{}, nil, fmt.Errorf("its previous image: %w", err)
		}
		previous = &d
	}
	if c.Current != nil {
		next, err = r.parse(c.Current)
		return next, previous, err
	}
	if next.id, err = c.ID(); err != nil {
		return document{}, nil, err
	}
	switch {
	case c.DeletedKey != nil:
		next.source = c.DeletedKey
	case previous != nil:
		next.source = previous.source
	default:
		return document{}, nil, fmt.Errorf("the delete of %q says no partition key", next.id)
	}
	if !r.rekeyed {
		next.target = next.source
	}
	return next, previous, nil
}

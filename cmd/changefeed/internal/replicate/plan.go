package replicate

import (
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
)

// plan combines all changes of one document in a batch. The target receives only their
// result.
type plan struct {
	document
	// gone reports whether the document was deleted. It then has no body, and may have no
	// target key.
	gone bool
	// left contains the target keys under which the document was before, but is no
	// longer. It maps a key's name to the key.
	left map[string]key
	// search reports whether old copies of the document must be looked up in the target
	// by its id.
	search bool
	// there reports whether the target probably has the document under its key already.
	there bool
	// changes is the number of changes that the plan replaces.
	changes int
	// aside reports whether the document was set aside. Its old copies then stay.
	aside bool
}

// rules determine how the changes of a batch become plans.
type rules struct {
	shape
	// rekeyed reports whether the target may divide the documents among other logical
	// partitions than the source. It has other partition key paths, or only one of the two
	// has version 1 of the hash.
	rekeyed bool
	// moves reports whether documents whose target key may have changed are looked up in
	// the target.
	moves bool
	// empty reports whether the target had no document when the replication began. ends
	// are the last LSNs of the source's ranges at that time.
	empty bool
	ends  []protocol.End
}

// first returns an LSN. Changes of range rng up to it need no look-up in the target. It
// returns -1 if there is no such LSN.
//
// Those changes were made before the replication began, when the target was empty. The
// feed contains only a document's last write, so no earlier change was copied under
// another key. A split does not restart LSNs.
func (r rules) first(rng feed.Range) (upTo int64) {
	if !r.empty {
		return -1
	}
	known := false
	for _, e := range r.ends {
		if e.Overlaps(rng) && (!known || e.LSN < upTo) {
			upTo, known = e.LSN, true
		}
	}
	if !known {
		return -1
	}
	return upTo
}

// collapse returns one plan for each document in changes, in the order of the documents'
// first changes. unsure is the number of changes whose document may have an old copy that
// is not looked up.
func (r rules) collapse(rng feed.Range, changes []feed.Change) (plans []*plan, unsure int, err error) {
	upTo := r.first(rng)
	byName := make(map[string]*plan, len(changes))
	for _, c := range changes {
		next, previous, err := r.read(c)
		if err != nil {
			return nil, 0, fmt.Errorf("change at LSN %d: %w", c.LSN, err)
		}
		name := next.source.name + "\x00" + next.id
		p := byName[name]
		if p == nil {
			p = &plan{left: map[string]key{}}
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
			delete(p.left, p.target.name)
		}
	}
	return plans, unsure, nil
}

// leave records a target key under which the document was before.
func (p *plan) leave(k key) { p.left[k.name] = k }

// read parses a change. next is the document after the change. For a delete it has only
// the id and the source key. previous is the document before the change, or nil if the
// feed does not include it.
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
		next.source = r.source.key(c.DeletedKey)
	case previous != nil:
		next.source = previous.source
	default:
		return document{}, nil, fmt.Errorf("the delete of %q has no partition key", next.id)
	}
	if !r.rekeyed {
		next.target = next.source
	}
	return next, previous, nil
}

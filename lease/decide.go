package lease

// Decide: who should own what.
//
// Every host aims at floor to ceil of the leases per live host, and a host is who
// owns a live lease or has asked for one. Free leases are acquired: those handed
// over to this host, those nobody asked for, and, when they were left for a whole
// interval, any, so that a requester that died costs balance for a moment and
// never coverage. Then the host asks the most loaded one, whose owner finishes
// its batch and releases; the mark reserves the released lease. have(victim) is
// at least have(me) + 2 with every ask, so every ask evens out, and hosts at floor
// or ceil write nothing: ties stay where they are.
//
// Hosts look at the free leases in an order that is another one for each host, and
// ask for the last of a victim's in that order, so that they seldom meet at one
// lease. Where they do, compare-and-set lets one through.

// MoveKind tells what a [Move] is.
type MoveKind int

// The kinds of Move.
const (
	// MoveNone: there is nothing to do.
	MoveNone MoveKind = iota
	// MoveAcquire: Update with [Lease.Acquired].
	MoveAcquire
	// MoveAsk: Update with [Lease.Asked].
	MoveAsk
)

// String names the kind for messages.
func (k MoveKind) String() string {
	switch k {
	case MoveAcquire:
		return "acquire"
	case MoveAsk:
		return "ask"
	case MoveNone:
	}
	return "none"
}

// Move is the next write that a host should make to come nearer to balance.
type Move struct {
	Kind MoveKind
	// Lease is as the listing shows it; its ETag is the write's condition.
	Lease Lease
}

// Decide returns the next write, or a Move of MoveNone. It returns the same Move
// again until the lease was amended, skipped or removed.
func (p *Plan) Decide() Move {
	floor, ceil := p.share()
	if i, ok := p.toAcquire(ceil); ok {
		return Move{Kind: MoveAcquire, Lease: *p.lease(i)}
	}
	if i, ok := p.toAsk(floor, ceil); ok {
		return Move{Kind: MoveAsk, Lease: *p.lease(i)}
	}
	return Move{}
}

// toAcquire finds the first free lease, in this host's order, that it may take.
func (p *Plan) toAcquire(ceil int) (int32, bool) {
	mine := p.have[p.me]
	best, found := entry{}, false
	consider := func(h *ranked, reserved string, left bool) {
		e, ok := h.top(func(e entry) bool { return p.offered(e.place, reserved, left) })
		if ok && (!found || e.before(best)) {
			best, found = e, true
		}
	}
	if p.host.Max == 0 || mine < p.host.Max {
		consider(&p.left, "", true) // left over: whatever I have
	}
	if mine <= ceil {
		consider(&p.free[p.me], p.host.Owner, false) // handed over to me
	}
	if mine < ceil {
		consider(&p.nobodys, "", false)
		for h := range p.free {
			if int32(h) != p.me && p.have[h] > ceil && len(p.free[h]) > 0 {
				consider(&p.free[h], p.names[h], false) // its requester has enough
			}
		}
	}
	return best.place, found
}

// offer puts a free lease where toAcquire looks for it. What is there already and
// no longer fits is dropped when it comes to the top.
func (p *Plan) offer(i int32, l *Lease, s standing) {
	if s.live || p.shadowed(l.ID) || p.running(l.ID) {
		return
	}
	e := entry{order: order(p.host.Owner, l.ID), place: i}
	if s.wanted == "" {
		p.nobodys.push(e)
	} else {
		p.free[p.hostNumber(s.wanted)].push(e)
	}
	if p.leftOver(l) {
		p.left.push(e)
	}
}

// offered reports whether the lease at place i still is free, and reserved for
// that host ("": nobody) or, if left is set, left over.
func (p *Plan) offered(i int32, reserved string, left bool) bool {
	if p.skipped[i] {
		return false
	}
	l := p.lease(i)
	s := p.stand(l)
	if s.live {
		return false
	}
	if left {
		return p.leftOver(l)
	}
	return s.wanted == reserved
}

// leftOver reports whether a free lease was free, with the same ETag, when this
// host's last regular cycle looked.
func (p *Plan) leftOver(l *Lease) bool {
	etag, ok := p.before.free[l.ID]
	return p.regular && ok && etag == l.ETag
}

// toAsk finds the lease to ask for: one of the most loaded host's.
func (p *Plan) toAsk(floor, ceil int) (int32, bool) {
	mine := p.have[p.me]
	if mine >= ceil {
		return 0, false
	}
	var best entry
	most, found := 0, false
	for v := range p.names {
		if int32(v) == p.me || p.have[v] < most {
			continue
		}
		if p.have[v] <= ceil && (mine >= floor || p.have[v] <= floor) {
			continue
		}
		// The names' order differs between listings, so ties are broken by hash.
		e := entry{order: order(p.host.Owner, p.names[v]), place: int32(v)}
		if found && p.have[v] == most && best.before(e) {
			continue
		}
		if _, ok := p.lastOf(int32(v)); ok {
			best, most, found = e, p.have[v], true
		}
	}
	if !found {
		return 0, false
	}
	e, _ := p.lastOf(best.place)
	return e.place, true
}

// victim holds the leases of one host that may be asked for.
type victim struct {
	places []int32 // as found; moved into order when it is first looked at
	order  ranked
}

// lastOf finds, in this host's order, the last lease of v that may be asked for.
func (p *Plan) lastOf(v int32) (entry, bool) {
	if p.victims == nil {
		p.victims = map[int32]*victim{}
		for i := range p.listing.Leases {
			p.suggest(int32(i), p.lease(int32(i)))
		}
	}
	from := p.victims[v]
	if from == nil {
		return entry{}, false
	}
	for _, i := range from.places {
		// The heap has the smallest on top; the last is wanted.
		from.order = append(from.order, entry{order: ^order(p.host.Owner, p.lease(i).ID), place: i})
	}
	if len(from.places) > 0 {
		from.places = nil
		from.order.init()
	}
	return from.order.top(func(e entry) bool {
		l := p.lease(e.place)
		return l.Owner == p.names[v] && p.askable(e.place, l)
	})
}

// suggest notes a lease that may be asked for, once anybody is asked at all.
func (p *Plan) suggest(i int32, l *Lease) {
	if p.victims == nil || !p.askable(i, l) {
		return
	}
	v := p.hostNumber(l.Owner)
	if p.victims[v] == nil {
		p.victims[v] = &victim{}
	}
	p.victims[v].places = append(p.victims[v].places, i)
}

// askable reports whether a lease may be asked for: live and young, its owner of
// our kind and not this host, without a mark and without an ancestor. One that
// this host has a worker for, whose release isn't answered yet, may already be
// another's: it is left alone, because a host writes a lease once at a time.
func (p *Plan) askable(i int32, l *Lease) bool {
	if l.Owner == "" || l.Owner == p.host.Owner || l.Wanted() != "" || p.skipped[i] || p.running(l.ID) {
		return false
	}
	return p.stand(l).young && Ours(l.Owner) && !p.shadowed(l.ID)
}

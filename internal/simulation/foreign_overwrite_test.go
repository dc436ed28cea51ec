package simulation

import (
	"context"
	"errors"
	"slices"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// A .NET host writes the leases of children that it has created without a condition. The
// document that it passed to the create has no ETag, and .NET does not take the ETag from
// answers. So its acquire and its checkpoints of such a lease replace any document. They
// take the lease from its owner, write an older position, and remove the properties that
// others have added. Only the renewal reads the document, and so finds another owner.

// ignoresCancellation is the share of the pages whose handler on a host of .NET ignores its
// cancellation token, in leases that the host writes without a condition. The host
// checkpoints such a page even if it has lost the lease.
const ignoresCancellation = 0.5

// addOverwriter adds a host of .NET to the scenario, and splits of the partitions that it
// reads. All hosts of .NET then write their leases without a condition.
func (s *scenario) addOverwriter(d *draw) {
	v := visit{
		from: d.span(s.active/20, s.active/4), to: d.span(s.active*3/4, s.active*97/100), crash: d.chance(0.3),
		habits: habits{steal: 0.2 + 0.4*d.float(), pause: 0.2 * d.float(), release: 0.1 * d.float()},
	}
	s.visits(v)
	s.add(d, d.between(2, 5), eventSplitForeign, float64(v.from)/float64(s.active), float64(v.to)/float64(s.active))
}

func (r *run) overwrite(context.Context) { r.world.visitors().overwrite = true }

// eventSplitForeign is the split of a partition that a host of .NET reads.
var eventSplitForeign = &eventKind{func(ctx context.Context, r *run, e event) { r.splitForeign(ctx, e.n) }}

// splitForeign splits a partition that a host of .NET reads. It does nothing if there is
// none.
func (r *run) splitForeign(ctx context.Context, n int) {
	var read []feed.Partition
	for _, p := range r.world.engine.partitions() {
		for _, l := range r.world.documents() {
			if l.PartitionID == p.ID && r.world.isDotNet(l.Owner) {
				read = append(read, p)
			}
		}
	}
	if len(read) > 0 {
		p := read[n%len(read)]
		r.split(ctx, p, n, p.Range)
	}
}

// isDotNet reports whether owner is the owner text of a host of .NET.
func (w *world) isDotNet(owner string) bool {
	return slices.ContainsFunc(w.everyForeignHost(), func(f *foreign) bool { return f.instance == owner && !f.java })
}

// overwrite replaces the current document of a lease without comparing ETags.
func (f *foreign) overwrite(ctx context.Context, l lease.Lease) (lease.Lease, error) {
	return f.write(ctx, opUpdate, l, func(ctx context.Context, l lease.Lease) (lease.Lease, error) {
		for {
			current, err := f.current(ctx, l.Token)
			if err != nil {
				return lease.Lease{}, err
			}
			l.ID, l.ETag = current.ID, current.ETag
			answer, err := f.store.Update(ctx, l)
			if _, changed := conflictWith(err); changed {
				continue
			}
			if err == nil && current.Owner != "" && current.Owner != f.instance {
				f.world.occurs(overwrittenLeases)
			}
			return answer, err
		}
	})
}

// current returns the document of a lease in the store. It takes no fake time.
func (f *foreign) current(ctx context.Context, token string) (lease.Lease, error) {
	listing, err := f.store.List(ctx)
	if err != nil {
		return lease.Lease{}, err
	}
	i := slices.IndexFunc(listing.Leases, func(l lease.Lease) bool { return l.Token == token })
	if i < 0 {
		return lease.Lease{}, feed.ErrNotFound
	}
	return listing.Leases[i], nil
}

// takeOwn acquires a child that this host of .NET has created, and starts to work on it.
func (f *foreign) takeOwn(ctx context.Context, child lease.Lease) {
	child = f.claimed(child, "")
	got, err := f.overwrite(ctx, child)
	if err != nil {
		f.clear(ctx, child.Token, "")
		return
	}
	f.work(got, &child) //nolint:contextcheck // the work outlives the cycle: it has the host's life
}

// overwrite checkpoints the lease of a child at position, with the document that the host
// created or last checkpointed. It does so even if the work has ended meanwhile.
func (w *foreignWork) overwrite(position feed.Continuation) error {
	next := w.host.claimed(protocol.At(*w.own, position), "")
	_, err := w.host.overwrite(context.WithoutCancel(w.ctx), next)
	switch {
	case errors.Is(err, feed.ErrNotFound):
		return errForeignLost
	case err != nil:
		return err
	}
	w.own = &next
	return nil
}

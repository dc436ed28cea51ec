package simulation

import (
	"context"
	"strconv"

	"github.com/changefeed-go/changefeed/feed"
)

// write commits one transaction of new items, new versions and deletes.
func (r *run) write(ctx context.Context) {
	if r.scenario.document != nil {
		r.writeUserDocument(ctx)
		return
	}
	d := &r.writes
	key := r.scenario.key(d.intn(keyCount))
	n := 1
	if d.chance(0.5) {
		n = d.between(2, 9)
	}
	var writes []itemWrite
	taken := map[string]bool{}
	for range n {
		w := r.operation(d, key, taken)
		taken[w.id] = true
		if r.amend != nil {
			w = r.amend(w)
		}
		writes = append(writes, w)
	}
	if err := r.world.write(ctx, writes...); err != nil {
		r.world.fails("cannot write: %v", err)
	}
}

// writeUserDocument commits the user's next document.
func (r *run) writeUserDocument(ctx context.Context) {
	r.nextItem++
	key, document := r.scenario.document(r.nextItem)
	id, _ := document["id"].(string)
	if err := r.world.write(ctx, itemWrite{key: key, id: id, document: document}); err != nil {
		r.world.fails("cannot write document %d: %v", r.nextItem, err)
	}
}

// rewriteShare and deleteShare are the shares of the operations that write a new version
// of an existing item, or delete one, if the partition key has items. Over all operations
// they are 28 % and 19 %.
const (
	rewriteShare = 0.42
	deleteShare  = 0.28
)

// operation draws one operation on a partition key: a new item, a new version, or a
// delete. It does not choose the items that the transaction has taken. It writes an expired
// item again where it would delete a live one.
func (r *run) operation(d *draw, key feed.PartitionKey, taken map[string]bool) itemWrite {
	name := key.String()
	old := r.items[name]
	p, i := d.float(), d.intn(len(old))
	for range old {
		if !taken[old[i].id] {
			break
		}
		i = (i + 1) % len(old)
	}
	if len(old) > 0 && !taken[old[i].id] && p < rewriteShare+deleteShare {
		w := old[i]
		if p < deleteShare && r.world.exists(w) {
			old[i] = old[len(old)-1]
			r.items[name] = old[:len(old)-1]
			w.document = nil
		}
		return w
	}
	r.nextItem++
	id := "i" + strconv.Itoa(r.nextItem)
	w := itemWrite{key: key, id: id, document: document(key, id)}
	r.items[name] = append(old, w)
	return w
}

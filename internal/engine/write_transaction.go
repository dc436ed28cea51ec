package engine

import (
	"bytes"
	"errors"
	"fmt"
	"slices"

	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// operation is one operation of a transaction. It has the prepared request, and the
// result that the sequencer sets.
type operation struct {
	kind storetype.OpKind
	// key is the item's index key. point is the slice of key that holds the point.
	key, point []byte
	id         string
	doc        layout.Document
	change     func(old []byte) ([]byte, error)

	// unique has the digests of doc's unique keys. It is nil if the container has none.
	unique []uniqueDigest

	ifMatch, ifNoneMatch string
	// noBody reports whether the result has no body. exact reports whether the charge of a
	// replace depends on what it changes.
	noBody, exact bool

	// The sequencer sets the fields below. They are the result.
	stamp   layout.Stamp
	created bool
	// size is the size of the stored document before or after the operation, whichever is
	// larger.
	size uint32
	// stored is the stored document that an OpRead returns.
	stored []byte
	// before is the version that the operation replaces, if exact is set.
	before version
}

// version is an item's state at one moment within a group.
type version struct {
	layout.Entry
	exists bool
	// body is the document without system properties if the current group wrote it. It is
	// nil if the document is in the log.
	body []byte
}

// effect is one write of a transaction.
type effect struct {
	op *operation
	// remove reports whether the write deletes the item. expired reports whether the
	// reason is that the item has expired.
	remove, expired bool
	old             version
	// stamp is the stamp of the new version. Unless remove is set, body and ttl are its
	// document and time to live.
	stamp layout.Stamp
	body  []byte
	ttl   int32
	// previous is the old version's document, for the versions log.
	previous []byte
	// unique is the change of the index of unique keys. It is nil if the container has no
	// unique keys.
	unique *uniqueChange
}

// transaction is the state of a transaction whose operations are being evaluated.
type transaction struct {
	*group
	l *writeState
	// index is the index of the transaction's partition in l.meta.partitions.
	index int
	lsn   int64
	docs  uint32
	// made is the size in bytes of the documents that the transaction's changes have
	// written and its reads have returned.
	made int
}

// transaction begins a transaction in the partition with the given index. It takes the
// next LSN of that partition.
func (g *group) transaction(l *writeState, index int) *transaction {
	g.effects, g.images, g.undo = g.effects[:0], g.images[:0], g.undo[:0]
	return &transaction{group: g, l: l, index: index, lsn: l.ends[index] + 1, docs: l.docs}
}

// transact evaluates the operations of a transaction in order. Each operation sees the
// effects of earlier ones. Then transact performs all effects. If an operation fails, it
// performs none.
func (g *group) transact(r *request) error {
	l := g.db.writeState(r.c)
	if l == nil {
		return notFound("container %s", r.c.name)
	}
	r.keepView(g.db)
	index := l.meta.find(r.ops[0].point)
	r.partition, r.end = l.meta.partitions[index].id, l.ends[index] // also set if the transaction fails
	t := g.transaction(l, index)
	for i := range r.ops {
		if err := t.judge(&r.ops[i]); err != nil {
			t.unclaim()
			if r.batch {
				return &storetype.BatchError{Index: i, Err: err, Partition: r.partition, End: r.end}
			}
			return err
		}
	}
	t.perform()
	r.end = l.ends[index]
	return nil
}

// judge checks whether an operation succeeds, and adds its writes to the transaction's
// effects.
func (t *transaction) judge(op *operation) error {
	old, err := t.find(op.key)
	if err != nil {
		return err
	}
	stale := old.exists && layout.Expired(old.TS, int32(t.l.meta.props.DefaultTTL), old.TTL, t.ts)
	if stale && (op.kind == storetype.OpCreate || op.kind == storetype.OpUpsert) && op.ifMatch == "" {
		// Delete the expired item now, as the purge would do later, because a versions
		// log must have the delete before the new item.
		if _, err := t.add(effect{op: op, remove: true, expired: true, old: old}); err != nil {
			return err
		}
	}
	if stale {
		old = version{}
	}
	if err := t.checkConditions(op, old); err != nil {
		return err
	}
	op.size = old.Size
	switch op.kind {
	case storetype.OpCreate, storetype.OpUpsert, storetype.OpReplace:
		return t.write(op, old, op.doc)
	case storetype.OpDelete:
		op.stamp, err = t.add(effect{op: op, remove: true, old: old})
		return err
	case storetype.OpRead:
		if err := t.produce(int(old.Size)); err != nil {
			return err
		}
		op.stamp = old.Stamp
		op.stored, err = t.appendDocument(nil, op, old)
		return err
	case storetype.OpChange:
		doc, err := t.changed(op, old)
		if err != nil {
			return err
		}
		return t.write(op, old, doc)
	}
	return layout.BadRequest(storetype.BadBatch, "there is no operation %d", op.kind)
}

// checkConditions checks the item's existence, If-Match and If-None-Match.
func (t *transaction) checkConditions(op *operation, old version) error {
	switch op.kind {
	case storetype.OpCreate:
		if old.exists {
			return fmt.Errorf("item %q: %w", op.id, storetype.ErrConflict)
		}
	case storetype.OpReplace, storetype.OpDelete, storetype.OpRead, storetype.OpChange:
		if !old.exists {
			return notFound("item %q", op.id)
		}
	case storetype.OpUpsert:
	}
	return t.l.c.checkETags(op, old)
}

func (c *Container) checkETags(op *operation, old version) error {
	if op.ifMatch == "" && op.ifNoneMatch == "" {
		return nil
	}
	tag := ""
	if old.exists {
		tag = c.tail.ETag(old.Stamp)
	}
	if op.ifMatch != "" && !old.exists {
		return fmt.Errorf("%w: there is no item %q", storetype.ErrPreconditionFailed, op.id)
	}
	if op.ifMatch != "" && op.ifMatch != "*" && op.ifMatch != tag {
		return fmt.Errorf("%w: item %q has another etag", storetype.ErrPreconditionFailed, op.id)
	}
	if op.ifNoneMatch != "" && old.exists && (op.ifNoneMatch == "*" || op.ifNoneMatch == tag) {
		if op.kind == storetype.OpRead {
			return storetype.ErrNotModified
		}
		return fmt.Errorf("%w: item %q exists", storetype.ErrPreconditionFailed, op.id)
	}
	return nil
}

// write adds the effect that replaces the version old of op's item by the document doc.
func (t *transaction) write(op *operation, old version, doc layout.Document) error {
	s := layout.Stamp{Number: old.Number}
	if !old.exists {
		if t.docs >= layout.MaxDocumentNumber {
			return storetype.ErrFull
		}
		t.docs++
		s.Number = t.docs
		op.created = true
	}
	if err := t.judgeUnique(op); err != nil {
		return err
	}
	s, err := t.add(effect{op: op, old: old, stamp: s, body: doc.Body, ttl: doc.TTL})
	if err != nil {
		return err
	}
	op.stamp, op.doc = s, doc
	op.keepBefore(old)
	op.size = max(op.size, uint32(t.l.c.tail.StoredSize(doc.Body, op.stamp)))
	return nil
}

// add appends an effect and assigns its stamp. Every error of an effect is returned here,
// before any write of the transaction is in the batch.
func (t *transaction) add(e effect) (layout.Stamp, error) {
	e.stamp.LSN, e.stamp.TS, e.stamp.Ordinal = t.lsn, t.ts, uint16(len(t.effects))
	if e.old.exists && t.l.meta.props.Retention > 0 {
		n := len(t.images)
		images, err := t.appendDocument(t.images, e.op, e.old)
		if err != nil {
			return e.stamp, t.db.fault(err)
		}
		t.images, e.previous = images, images[n:]
	}
	if t.l.c.unique != nil {
		if err := t.claimUnique(&e); err != nil {
			return e.stamp, err
		}
	}
	t.effects = append(t.effects, e)
	return e.stamp, nil
}

// find returns the last version of an item: from this transaction, from this group, or
// from the database.
func (t *transaction) find(key []byte) (version, error) {
	for i := len(t.effects) - 1; i >= 0; i-- {
		if e := &t.effects[i]; bytes.Equal(e.op.key, key) {
			return e.version(t.l, 0), nil
		}
	}
	if v, ok := t.written[string(key)]; ok {
		return v, nil
	}
	e, ok, err := t.lookup(key)
	if err != nil {
		return version{}, t.db.fault(err)
	}
	return version{Entry: e, exists: ok}, nil
}

// version returns the state of the item after the write e.
func (e *effect) version(l *writeState, segment uint32) version {
	if e.remove {
		return version{}
	}
	return version{
		exists: true,
		body:   e.body,
		Entry: layout.Entry{
			Stamp: e.stamp, Segment: segment, Point: uint16(len(e.op.point)), TTL: e.ttl,
			Size: uint32(l.c.tail.StoredSize(e.body, e.stamp)),
		},
	}
}

// appendDocument appends the stored document of a version to dst.
func (t *transaction) appendDocument(dst []byte, op *operation, v version) ([]byte, error) {
	if v.body != nil {
		return t.l.c.tail.AppendStored(dst, v.body, v.Stamp), nil
	}
	return t.l.c.fetch(t.db.pebble, dst, v.Entry, op.point)
}

// perform writes the effects to the batch. An error here fails the whole group, because
// part of the transaction may be in the batch.
func (t *transaction) perform() {
	if len(t.effects) == 0 {
		return
	}
	segment := t.l.meta.partitions[t.index].number
	versions := t.l.meta.props.Retention > 0
	for i := range t.effects {
		e := &t.effects[i]
		if versions {
			t.broken = errors.Join(t.broken, t.putVersion(e, segment))
		}
		t.broken = errors.Join(t.broken, t.put(e, segment))
		t.l.grown[t.index].add(e.growth(t.l))
	}
	t.l.docs = t.docs
	t.l.touch(t.group, t.index, t.lsn)
}

// put adds one write of the transaction to the log and to the index. segment is the
// segment of the partition.
func (t *transaction) put(e *effect, segment uint32) error {
	c := t.l.c
	if e.old.exists {
		// Each log key is set once and never again. So a single delete is safe. It costs
		// less than a delete, and Pebble drops it sooner.
		t.scratch = layout.AppendLogKey(t.scratch[:0], layout.SpaceLog, c.number, t.segmentOf(e.old, segment), e.old.LSN, e.old.Ordinal)
		t.scratch = append(t.scratch, e.op.point...)
		if err := t.deferred.SingleDelete(t.scratch, nil); err != nil {
			return err
		}
	}
	v := e.version(t.l, segment)
	t.written[string(e.op.key)] = v
	if e.unique != nil {
		if err := t.putUnique(e); err != nil {
			return err
		}
	}
	if err := t.putOrder(e, segment); err != nil {
		return err
	}
	if e.remove {
		return t.deferred.Delete(e.op.key, nil)
	}
	d := t.batch.SetDeferred(layout.LogKeySize+len(e.op.point), layout.LogHeaderSize+int(v.Size))
	layout.AppendLogKey(d.Key[:0], layout.SpaceLog, c.number, segment, e.stamp.LSN, e.stamp.Ordinal)
	copy(d.Key[layout.LogKeySize:], e.op.point)
	layout.PutLogHeader(d.Value, e.stamp.TS, e.ttl)
	c.tail.AppendStored(d.Value[:layout.LogHeaderSize], e.body, e.stamp)
	t.db.sstPartitions.note(d.Key, len(d.Value))
	if err := d.Finish(); err != nil {
		return err
	}
	value := v.Encode()
	return t.deferred.Set(e.op.key, value[:], nil)
}

// segmentOf returns the segment of a version. A version that the same transaction wrote
// does not have its segment yet.
func (t *transaction) segmentOf(v version, segment uint32) uint32 {
	if v.LSN == t.lsn {
		return segment
	}
	return v.Segment
}

// writeState is the sequencer's state of a container, for the next write. Only the
// sequencer uses it.
type writeState struct {
	c    *Container
	meta *meta
	// docs is the last document number assigned in the container.
	docs uint32
	// version counts the states that state has returned.
	version int64
	// ends has the last LSN of each partition of meta. grown has each partition's growth
	// since the store was opened.
	ends  []int64
	grown []growth
	// copying is the copy of orders for a split or merge that is in progress, or nil.
	copying *orderCopy
	// touched has the indexes of the partitions that the current group wrote to. changed
	// reports whether the group replaced meta. isDirty reports whether the group lists
	// the state.
	touched []int
	changed bool
	isDirty bool
}

// touch records that the partition at an index of meta has a new last LSN.
func (l *writeState) touch(g *group, index int, lsn int64) {
	l.ends[index] = lsn
	g.end = lastWrite{container: l.c.number, partition: l.meta.partitions[index].number, lsn: lsn}
	if !slices.Contains(l.touched, index) {
		l.touched = append(l.touched, index)
	}
	l.list(g)
}

// replace sets l.meta to m. The next flush then writes the container's record and the
// counters of all its partitions.
func (l *writeState) replace(g *group, m *meta, ends []int64) {
	l.grown = l.carry(m)
	l.meta, l.ends, l.changed = m, ends, true
	l.touched = l.touched[:0]
	for i := range m.partitions {
		l.touched = append(l.touched, i)
	}
	l.list(g)
}

func (l *writeState) list(g *group) {
	if !l.isDirty {
		l.isDirty = true
		g.dirty = append(g.dirty, l)
	}
}

// flush writes the group's changes of the writeState to the batch, unless the group
// deleted the container.
func (l *writeState) flush(g *group) error {
	l.isDirty = false
	if g.db.writeStates[l.c.slot] != l {
		return nil
	}
	for _, index := range l.touched {
		p := l.meta.partitions[index]
		value := layout.Counters{LSN: l.ends[index], Docs: l.docs, TS: g.ts}.Encode()
		if err := g.batch.Set(layout.PartitionKeyOf(l.c.number, p.number), value[:], nil); err != nil {
			return err
		}
	}
	if l.changed {
		record, err := l.meta.record(l.c)
		if err != nil {
			return err
		}
		return g.batch.Set(layout.ContainerKey(l.c.number), record, nil)
	}
	return nil
}

// state returns the state of the container for readers.
func (l *writeState) state() *state {
	l.version++
	return &state{c: l.c, meta: l.meta, version: l.version, ends: slices.Clone(l.ends), grown: slices.Clone(l.grown)}
}

// announce wakes the readers that wait for changes of the partitions that the group wrote
// to. The group's view must be published.
func (l *writeState) announce() {
	l.c.changed.advance(l.version)
	for _, index := range l.touched {
		l.meta.partitions[index].changed.advance(l.ends[index])
	}
	l.touched = l.touched[:0]
	if l.changed {
		l.changed = false
		l.c.db.wakePurger()
	}
}

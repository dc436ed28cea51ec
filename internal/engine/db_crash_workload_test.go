package engine_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/storetype"
)

// This file is the load of the crash tests. Each of several writers owns some items and
// writes their versions 1, 2, 3 and so on. The number of a version determines its kind:
// an upsert, a delete, or part of a batch. So the state of an item after a crash shows
// which version is the last one.
//
// After a crash, an item may have only its last acknowledged version or the next one.
// During the load, partitions are split and merged, and items with a time to live expire.
// A reader of each container records the changes that it receives.

const (
	crashWriters = 4
	crashKeys    = 3 // the number of partition keys of each writer
	crashIDs     = 3 // the number of items of each partition key
	// A version whose number is a multiple of crashDelete is a delete.
	crashDelete = 6
)

// crashContainers lists the two containers of the load. The first one keeps only the
// latest version of each item. The second one keeps all versions.
var crashContainers = []storetype.ContainerProperties{
	{ID: "latest", KeyPaths: []string{"/pk"}, Partitions: 2, DefaultTTL: -1},
	{ID: "versions", KeyPaths: []string{"/pk"}, Partitions: 2, DefaultTTL: -1, Retention: time.Hour},
}

// crashItem identifies an item by its container, partition key and id. The container is
// an index in crashContainers.
type crashItem struct {
	container int
	key, id   string
}

func (i crashItem) String() string { return fmt.Sprintf("%d/%s/%s", i.container, i.key, i.id) }

func parseCrashItem(s string) (crashItem, error) {
	p := strings.Split(s, "/")
	if len(p) != 3 {
		return crashItem{}, fmt.Errorf("item %q", s)
	}
	c, err := strconv.Atoi(p[0])
	return crashItem{c, p[1], p[2]}, err
}

// known is the part of a store's state that its clients know, because the store
// acknowledged it or delivered it. A crash must not change it.
type known struct {
	// acked holds the last acknowledged version of each item.
	acked map[crashItem]int
	// delivered holds the last version of each item that a reader received, and its LSN.
	// It has no deletes from the container that keeps only latest versions.
	delivered map[crashItem]delivery
	// tried holds the last write that each writer sent, acknowledged or not: the versions
	// that it gave to its items.
	tried map[int]map[crashItem]int
	// partitions has an element for each partition that an acknowledged split or merge
	// created. Its form is "index of the container/ID".
	partitions map[string]bool
}

type delivery struct {
	version int
	lsn     int64
}

func newKnown() *known {
	return &known{
		acked: map[crashItem]int{}, delivered: map[crashItem]delivery{}, tried: map[int]map[crashItem]int{}, partitions: map[string]bool{},
	}
}

func (k *known) clone() *known {
	return &known{maps.Clone(k.acked), maps.Clone(k.delivered), maps.Clone(k.tried), maps.Clone(k.partitions)}
}

// deliver records that a reader received version d of an item. A reader that restarts at
// the beginning of a partition receives old versions again. They do not replace newer
// ones.
func (k *known) deliver(i crashItem, d delivery) {
	if d.version >= k.delivered[i].version {
		k.delivered[i] = d
	}
}

// witness records the writes that clients send, and everything that the store
// acknowledges or delivers.
type witness interface {
	try(writer int, versions map[crashItem]int)
	ack(i crashItem, version int)
	deliver(i crashItem, d delivery)
	divide(container int, partition string)
}

// crashLoad runs the writers and the readers of one store.
type crashLoad struct {
	db         *engine.DB
	containers []*engine.Container
	w          witness
	// versions holds the version of each item when the load begins.
	versions map[crashItem]int
	stop     atomic.Bool
}

// setUp creates the database and the containers of the load, or opens them if they exist.
func (l *crashLoad) setUp(ctx context.Context) error {
	if _, err := l.db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "db"}); err != nil && !errors.Is(err, storetype.ErrConflict) {
		return err
	}
	l.containers = nil
	for _, p := range crashContainers {
		c, err := l.db.CreateContainer(ctx, "db", p)
		if errors.Is(err, storetype.ErrConflict) {
			c, err = l.db.Container(ctx, "db", p.ID)
		}
		if err != nil {
			return err
		}
		l.containers = append(l.containers, c)
	}
	return nil
}

// run runs all writers and readers until stop is set or one of them fails.
func (l *crashLoad) run(ctx context.Context, seed uint64) error {
	var steps []func(context.Context) error
	for n := range crashWriters {
		w := &crashWriter{crashLoad: l, number: n, rng: rand.New(rand.NewPCG(seed, uint64(n))), last: maps.Clone(l.versions)}
		steps = append(steps, w.step)
	}
	for place, c := range l.containers {
		r := &crashReader{l: l, container: place, src: l.db.Source(c), at: map[string]feed.Continuation{}}
		steps = append(steps, r.step)
	}
	errs := make([]error, len(steps))
	var wg sync.WaitGroup
	for n, step := range steps {
		wg.Go(func() {
			for errs[n] == nil && !l.stop.Load() {
				errs[n] = step(ctx)
			}
			if errs[n] != nil {
				l.stop.Store(true)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// crashWriter is one writer of the load. Its partition keys begin with its number.
type crashWriter struct {
	*crashLoad
	number int
	rng    *rand.Rand
	last   map[crashItem]int // the last acknowledged version of each item
}

func (w *crashWriter) step(ctx context.Context) error {
	if w.rng.IntN(100) == 0 {
		return w.divide(ctx)
	}
	return w.write(ctx)
}

func crashBody(i crashItem, version, ttl int) []byte {
	b := fmt.Appendf(nil, `{"id":%q,"pk":%q,"n":%d,"text":%q`, i.id, i.key, version, strings.Repeat("x", version*37%300))
	if ttl != 0 {
		b = fmt.Appendf(b, `,"ttl":%d`, ttl)
	}
	return append(b, '}')
}

// crashDoc is the decoded form of a document that crashBody made.
type crashDoc struct {
	id, key string
	version int
}

// readCrashDoc decodes a document that crashBody made. It cuts the text, because a JSON
// decoder would take most of the time of the tests.
func readCrashDoc(body []byte) (d crashDoc, err error) {
	rest, ok := strings.CutPrefix(string(body), `{"id":"`)
	if ok {
		d.id, rest, ok = strings.Cut(rest, `","pk":"`)
	}
	if ok {
		d.key, rest, ok = strings.Cut(rest, `","n":`)
	}
	if ok {
		rest, _, ok = strings.Cut(rest, ",")
	}
	if !ok {
		return d, fmt.Errorf("document %s", body)
	}
	d.version, err = strconv.Atoi(rest)
	return d, err
}

// write makes one of three random writes. It writes the next version of one item, the
// next versions of all items of one key in a batch, or an item that expires after a
// second.
func (w *crashWriter) write(ctx context.Context) error {
	container := w.rng.IntN(len(w.containers))
	c := w.containers[container]
	key := fmt.Sprintf("w%dk%d", w.number, w.rng.IntN(crashKeys))
	kind := w.rng.IntN(8)
	if kind == 0 {
		i := crashItem{container, key, fmt.Sprintf("t%d", w.rng.IntN(3))}
		_, err := c.Upsert(ctx, nil, crashBody(i, 1, 1), storetype.WriteOptions{})
		return err
	}
	tried := map[crashItem]int{}
	var ops []storetype.Operation
	for n := range crashIDs {
		if kind > 2 && n != kind%crashIDs {
			continue // a single write chooses one item of the key
		}
		i := crashItem{container, key, fmt.Sprintf("i%d", n)}
		tried[i] = w.last[i] + 1
		ops = append(ops, operationOf(i, tried[i]))
	}
	w.w.try(w.number, tried)
	var err error
	switch {
	case len(ops) > 1:
		_, err = c.Batch(ctx, feed.PartitionKey{key}, ops)
	case ops[0].Kind == storetype.OpDelete:
		_, err = c.Delete(ctx, feed.PartitionKey{key}, ops[0].ID, storetype.WriteOptions{})
	default:
		_, err = c.Upsert(ctx, nil, ops[0].Body, storetype.WriteOptions{})
	}
	if err != nil {
		return fmt.Errorf("write %v: %w", tried, err)
	}
	for i, v := range tried {
		w.last[i] = v
		w.w.ack(i, v)
	}
	return nil
}

func operationOf(i crashItem, version int) storetype.Operation {
	if version%crashDelete == 0 {
		return storetype.Operation{Kind: storetype.OpDelete, ID: i.id}
	}
	return storetype.Operation{Kind: storetype.OpUpsert, ID: i.id, Body: crashBody(i, version, 0)}
}

// divide splits a random partition or merges it with its neighbour. It ignores the error
// if another writer has split or merged the partition already.
func (w *crashWriter) divide(ctx context.Context) error {
	container := w.rng.IntN(len(w.containers))
	c := w.containers[container]
	ps, err := c.Partitions(ctx)
	if err != nil {
		return err
	}
	n := w.rng.IntN(len(ps))
	var made []feed.Partition
	if len(ps) > 5 || len(ps) > 1 && w.rng.IntN(2) == 0 {
		n = min(n, len(ps)-2)
		var p feed.Partition
		p, err = c.Merge(ctx, ps[n].ID, ps[n+1].ID)
		made = append(made, p)
	} else {
		made, err = c.Split(ctx, ps[n].ID, "")
	}
	var gone *feed.GoneError
	if errors.As(err, &gone) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("split or merge: %w", err)
	}
	for _, p := range made {
		w.w.divide(container, p.ID)
	}
	return nil
}

// crashReader follows the feed of all partitions of one container.
type crashReader struct {
	l         *crashLoad
	container int
	src       feed.Source
	// at holds the reader's position in each partition, by the partition's ID.
	at map[string]feed.Continuation
}

// step reads a page of each partition. If no partition has a change, step reads them
// again and waits for changes. A waiting reader receives a write as soon as the store
// delivers it. So it also receives a write that the store delivers before it is durable.
func (r *crashReader) step(ctx context.Context) error {
	fresh, err := r.read(ctx, 0)
	if err == nil && !fresh {
		_, err = r.read(ctx, time.Millisecond)
	}
	return err
}

func (r *crashReader) read(ctx context.Context, wait time.Duration) (fresh bool, err error) {
	ps, err := r.src.Partitions(ctx)
	if err != nil {
		return fresh, err
	}
	mode := feed.LatestVersion
	if crashContainers[r.container].Retention > 0 {
		mode = feed.AllVersionsAndDeletes
	}
	for _, p := range ps {
		from, ok := r.at[p.ID]
		if !ok {
			from = `"0"`
		}
		page, err := r.src.Read(ctx, feed.Request{Partition: p, From: feed.After(from), Mode: mode, MaxItems: 50, Wait: wait})
		var gone *feed.GoneError
		if errors.As(err, &gone) {
			return fresh, nil
		}
		if err != nil {
			return fresh, fmt.Errorf("read: %w", err)
		}
		for _, c := range page.Changes {
			i, d, err := deliveryOf(r.container, c)
			if err != nil {
				return fresh, err
			}
			if d.version > 0 && i.id[0] == 'i' {
				r.l.w.deliver(i, d)
			}
		}
		fresh = fresh || len(page.Changes) > 0
		r.at[p.ID] = page.Continuation
	}
	return fresh, nil
}

// deliveryOf returns the item that a change belongs to, and its version and LSN. A delete
// has no document, so its version is one above the version in its previous image.
func deliveryOf(container int, c feed.Change) (crashItem, delivery, error) {
	body := c.Current
	if body == nil {
		body = c.Previous
	}
	doc, err := readCrashDoc(body)
	if err != nil {
		return crashItem{}, delivery{}, fmt.Errorf("change at LSN %d: %w", c.LSN, err)
	}
	if c.Op == feed.Delete {
		doc.version++
	}
	return crashItem{container, doc.key, doc.id}, delivery{doc.version, c.LSN}, nil
}

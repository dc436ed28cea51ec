package feedtest_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// defective is a source that violates one sentence of the contract of feed.Source, which
// defect names.
type defective struct {
	feed.Source
	defect string

	mu     sync.Mutex // guards the fields below
	first  []feed.Partition
	calls  int
	buffer []byte
}

// defects lists each defect with the name of the case that must fail because of it.
var defects = []struct{ name, caught string }{
	{"the identity changes", "the identity names the container and does not change"},
	{"the identity has a port", "the identity names the container and does not change"},
	{"an ended context is ignored", "an ended context ends every call"},
	{"partitions come from a cache", "a split partition is gone and its children are listed"},
	{"partitions leave a gap", "partitions cover the key space in order"},
	{"only direct parents are named", "children of children name all their ancestors"},
	{"a retired partition answers an empty page", "a split partition is gone and its children are listed"},
	{"gone is not typed", "a partition that never existed is gone"},
	{"a range over two partitions reads the first", "a range over two partitions is gone"},
	{"the sub-range is ignored", "sub-ranges of a partition divide its feed without overlap"},
	{"a key's continuation is its last change's", "a key's continuation fits its partition, and the other way round"},
	{"the key is ignored", "keys of different types are different keys"},
	{"an empty page has no continuation", "an empty page has a continuation"},
	{"the continuation is inclusive", "a continuation is exclusive and can be read twice"},
	{"a page cuts a transaction", "a transaction has one LSN and is never cut"},
	{"a page forgets its last change", "a page has MaxItems changes"},
	{"MaxItems is ignored", "a page has MaxItems changes"},
	{"the default page is larger", "a page has 100 changes without MaxItems"},
	{"changes come in reverse", "every write is returned in order"},
	{"an item is shown twice", "an item is returned once, at its last write"},
	{"latest version mode returns creates", "every write is returned in order"},
	{"the time is local", "every write is returned in order"},
	{"LSNs are zero", "every write is returned in order"},
	{"the buffer is reused", "a page's buffer is never reused"},
	{"the end is the page's", "a page has its LSN and the End of the partition"},
	{"now is the beginning", "a read from now returns only later changes"},
	{"the beginning is now", "a read from the beginning returns everything"},
	{"a position after the end is the end", "a position after the end of the feed is lost history"},
	{"a start time is exclusive", "a read from a time returns that second and later"},
	{"all versions from the beginning starts from now", "an unsupported request is named"},
	{"the unsupported request has no name", "an unsupported request is named"},
	{"a delete has no key", "every version and every delete is returned"},
	{"a delete is forgotten", "every version and every delete is returned"},
	{"an expired delete lacks Expired", "an expired item is a delete with Expired set"},
	{"the previous image is the current one", "a previous image is the previous version"},
	{"a waiting read never ends", "a waiting read ends after its wait"},
	{"a read with changes waits", "a read with changes does not wait"},
	{"a merged partition starts at its first parent's position", "continuations of both parents are valid in a merged partition"},
	{"the time beside a continuation is ignored", "a start time leaves out older changes of a merged partition"},
	{"the parts of a range leave a gap", "a range is split into equal parts for workers"},
	{"the parts of a range overlap", "a hierarchical container is split for workers"},
	{"the parts of a range are unequal", "a range is split into equal parts for workers"},
}

func (d *defective) is(name string) bool { return d.defect == name }

func (d *defective) Identity(ctx context.Context) (feed.Identity, error) {
	id, err := d.Source.Identity(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls++
	if d.is("the identity changes") {
		id.ContainerRID += fmt.Sprint(d.calls)
	}
	if d.is("the identity has a port") {
		id.AccountHost += ":8081"
	}
	return id, err
}

func (d *defective) Partitions(ctx context.Context) ([]feed.Partition, error) {
	if d.is("an ended context is ignored") {
		ctx = context.WithoutCancel(ctx)
	}
	p, err := d.Source.Partitions(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.first == nil {
		d.first = p
	}
	switch d.defect {
	case "partitions come from a cache":
		return slices.Clone(d.first), err
	case "partitions leave a gap":
		return p[1:], err
	case "only direct parents are named":
		for i := range p {
			p[i].Parents = p[i].Parents[max(len(p[i].Parents)-1, 0):]
		}
	}
	return p, err
}

func (d *defective) SplitRange(ctx context.Context, r feed.Range, n int) ([]feed.Range, error) {
	parts, err := feed.SplitRange(ctx, d.Source, r, n)
	if err != nil || len(parts) < 2 {
		return parts, err
	}
	switch d.defect {
	case "the parts of a range leave a gap":
		parts[1].Min += "01"
	case "the parts of a range overlap":
		parts[1].Min = parts[0].Min
	case "the parts of a range are unequal":
		border := parts[0].Min + "01"
		parts[0].Max, parts[1].Min = border, border
	}
	return parts, nil
}

func (d *defective) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	if d.is("an ended context is ignored") {
		ctx = context.WithoutCancel(ctx)
	}
	if d.is("a range over two partitions reads the first") && r.Partition.ID == "" && r.Key == nil {
		p, err := d.Source.Partitions(ctx)
		if err != nil {
			return feed.Page{}, err
		}
		i := slices.IndexFunc(p, func(p feed.Partition) bool { return p.Range.Overlaps(r.Range) })
		r.Range = r.Range.Intersect(p[i].Range)
	}
	page, err := d.Source.Read(ctx, d.request(r))
	if err != nil {
		return d.failed(r, page, err)
	}
	return d.page(ctx, r, page), nil
}

// request returns the request that the defective source sends instead of r.
func (d *defective) request(r feed.Request) feed.Request {
	switch d.defect {
	case "the sub-range is ignored":
		if r.Partition.ID != "" {
			r.Range = feed.Range{}
		}
	case "the key is ignored":
		if r.Partition.ID != "" {
			r.Key = nil
		}
	case "the continuation is inclusive":
		if n := lsnOf(r.From.Continuation()); n > 1 {
			r.From = feed.After(continuation(n - 1))
		}
	case "MaxItems is ignored":
		r.MaxItems = 1000
	case "the default page is larger":
		if r.MaxItems == 0 {
			r.MaxItems = 1000
		}
	case "now is the beginning":
		if r.From.Kind() == feed.StartNow {
			r.From = feed.Beginning()
		}
	case "the beginning is now":
		if r.From.Kind() == feed.StartBeginning {
			r.From = feed.Now()
		}
	case "a start time is exclusive":
		if r.From.Kind() == feed.StartTime {
			r.From = feed.At(r.From.Time().Add(time.Second))
		}
	case "the time beside a continuation is ignored":
		if !r.From.Since().IsZero() {
			r.From = feed.After(r.From.Continuation())
		}
	case "all versions from the beginning starts from now":
		if r.Mode == feed.AllVersionsAndDeletes && r.From.Kind() == feed.StartBeginning {
			r.From = feed.Now()
		}
	case "a merged partition starts at its first parent's position":
		if len(r.Partition.Parents) > 2 && !r.Range.IsZero() && r.Range.Min == "" {
			d.mu.Lock()
			d.calls = lsnOf(r.From.Continuation())
			d.mu.Unlock()
		} else if len(r.Partition.Parents) > 2 && r.Range.Max == feed.MaxEPK {
			d.mu.Lock()
			r.From = feed.After(continuation(d.calls))
			d.mu.Unlock()
		}
	case "a waiting read never ends":
		if r.Wait > 0 {
			r.Wait = 24 * time.Hour
		}
	}
	return r
}

// failed returns the result that the defective source returns instead of an error.
func (d *defective) failed(r feed.Request, page feed.Page, err error) (feed.Page, error) {
	var gone *feed.GoneError
	switch d.defect {
	case "a retired partition answers an empty page":
		if errors.As(err, &gone) && gone.Partition != "" {
			return feed.Page{Continuation: `"1"`, LSN: 1, End: 1}, nil
		}
	case "gone is not typed":
		if errors.As(err, &gone) {
			return page, errors.New(err.Error())
		}
	case "a position after the end is the end":
		var lost *feed.HistoryLostError
		if errors.As(err, &lost) {
			return feed.Page{Continuation: r.From.Continuation(), LSN: 1, End: 1}, nil
		}
	case "the unsupported request has no name":
		if errors.Is(err, feed.ErrUnsupported) {
			return page, feed.ErrUnsupported
		}
	}
	return page, err
}

// page returns the page that the defective source returns instead of p.
func (d *defective) page(ctx context.Context, r feed.Request, p feed.Page) feed.Page {
	n := len(p.Changes)
	switch d.defect {
	case "an empty page has no continuation":
		if n == 0 {
			p.Continuation = ""
		}
	case "a page cuts a transaction":
		if r.MaxItems > 0 && n > r.MaxItems {
			p.Changes = p.Changes[:r.MaxItems]
		}
	case "a key's continuation is its last change's":
		if r.Key != nil && n > 0 {
			p.LSN, p.End = p.Changes[n-1].LSN, p.Changes[n-1].LSN
			p.Continuation = continuation(int(p.LSN))
		} else if r.Key != nil && r.From.Kind() == feed.StartContinuation {
			p.LSN, p.Continuation = p.End, r.From.Continuation()
		}
	case "a page forgets its last change":
		if n > 1 {
			p.Changes = p.Changes[:n-1]
		}
	case "changes come in reverse":
		slices.Reverse(p.Changes)
	case "an item is shown twice":
		if n > 0 {
			p.Changes = append(p.Changes, p.Changes[n-1])
		}
	case "the end is the page's":
		p.End = p.LSN
	case "the buffer is reused":
		d.reuse(p)
	case "a read with changes waits":
		if n > 0 && r.Wait > 0 {
			hold := time.NewTimer(r.Wait)
			defer hold.Stop()
			select {
			case <-hold.C:
			case <-ctx.Done():
			}
		}
	case "a delete is forgotten":
		p.Changes = slices.DeleteFunc(p.Changes, func(c feed.Change) bool { return c.Op == feed.Delete })
	}
	for i := range p.Changes {
		d.change(&p.Changes[i])
	}
	return p
}

// change applies the source's defect to c.
func (d *defective) change(c *feed.Change) {
	switch d.defect {
	case "latest version mode returns creates":
		c.Op = feed.Create
	case "the time is local":
		c.Time = c.Time.In(time.FixedZone("", 3600)).Add(500 * time.Millisecond)
	case "LSNs are zero":
		c.LSN = 0
	case "a delete has no key":
		c.DeletedKey = nil
	case "an expired delete lacks Expired":
		c.Expired = false
	case "the previous image is the current one":
		if c.Previous != nil && c.Current != nil {
			c.Previous = c.Current
		}
	}
}

// reuse moves the items of p into a buffer that the next page overwrites.
func (d *defective) reuse(p feed.Page) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.buffer = d.buffer[:0]
	if cap(d.buffer) == 0 {
		d.buffer = make([]byte, 0, 1<<20)
	}
	for i, c := range p.Changes {
		at := len(d.buffer)
		d.buffer = append(d.buffer, c.Current...)
		p.Changes[i].Current = json.RawMessage(d.buffer[at:len(d.buffer):len(d.buffer)])
	}
}

func lsnOf(c feed.Continuation) int {
	n := 0
	if _, err := fmt.Sscanf(strings.Trim(string(c), `"`), "%d", &n); err != nil {
		return 0
	}
	return n
}

func continuation(lsn int) feed.Continuation { return feed.Continuation(fmt.Sprintf(`"%d"`, lsn)) }

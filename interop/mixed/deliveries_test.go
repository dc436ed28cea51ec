package mixed

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// written is a change that the server has acknowledged.
type written struct {
	operation string // create, replace or delete
	key, id   string
	n         int64
}

// delivered is a change that a host has printed.
type delivered struct {
	host, change string
	at           time.Time // by this machine's clock
}

// deliveries records the written and the delivered changes, and compares them. It is safe
// for concurrent use.
type deliveries struct {
	versions bool // whether the mode is all versions and deletes

	mu      sync.Mutex // guards the fields below
	written []written
	all     []delivered
	first   map[string]time.Time
	host    map[string]int
	waiting map[string]target
}

// target is a number of changes that one host has to deliver. done is closed when the
// host has delivered that number.
type target struct {
	count int
	done  chan struct{}
}

func newDeliveries(versions bool) *deliveries {
	return &deliveries{versions: versions, first: map[string]time.Time{}, host: map[string]int{}, waiting: map[string]target{}}
}

// name returns the name under which a written change is expected in the scene's mode.
// Latest version mode does not distinguish creates from replaces.
func (d *deliveries) name(w written) string {
	switch {
	case !d.versions:
		return fmt.Sprintf("%s=%d", w.id, w.n)
	case w.operation == "delete":
		return "delete " + w.id
	}
	return fmt.Sprintf("%s %s=%d", w.operation, w.id, w.n)
}

func (d *deliveries) wrote(w written) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.written = append(d.written, w)
}

// line records the output line of a host about a change: "change", host, milliseconds,
// operation, key, id, number.
func (d *deliveries) line(fields []string) {
	if len(fields) != 7 { // the last line of a killed host may be incomplete
		return
	}
	ms, err := strconv.ParseInt(fields[2], 10, 64)
	n, err2 := strconv.ParseInt(fields[6], 10, 64)
	if err != nil || err2 != nil {
		return
	}
	c := delivered{fields[1], d.name(written{fields[3], fields[4], fields[5], n}), time.UnixMilli(ms)}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.all = append(d.all, c)
	d.host[c.host]++
	if t, wanted := d.waiting[c.host]; wanted && d.host[c.host] >= t.count {
		delete(d.waiting, c.host)
		close(t.done)
	}
	if before, seen := d.first[c.change]; !seen || c.at.Before(before) {
		d.first[c.change] = c.at
	}
}

// expected returns the changes that must be delivered, in the order of their writes. In
// latest version mode these are the last changes of the items that still exist.
func (d *deliveries) expected() []written {
	if d.versions {
		return d.written
	}
	last := map[string]int{}
	for i, w := range d.written {
		last[w.id] = i
	}
	var all []written
	for i, w := range d.written {
		if last[w.id] == i && w.operation != "delete" {
			all = append(all, w)
		}
	}
	return all
}

// missing returns the names of the expected changes that no host has delivered.
func (d *deliveries) missing() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []string
	for _, w := range d.expected() {
		if _, seen := d.first[d.name(w)]; !seen {
			all = append(all, d.name(w))
		}
	}
	return all
}

// order returns an error if a change was delivered for the first time before an earlier
// change of the same key. Then a lease's position was ahead of its handler. In latest
// version mode, order ignores items that are written repeatedly, because each write moves
// the item to the feed's end.
func (d *deliveries) order() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	before := map[string]written{}
	for _, w := range d.expected() {
		if !d.versions && strings.HasPrefix(w.id, hot) {
			continue
		}
		earlier, follows := before[w.key]
		before[w.key] = w
		if !follows {
			continue
		}
		at, ok := d.first[d.name(w)]
		earlierAt, earlierOK := d.first[d.name(earlier)]
		if ok && (!earlierOK || at.Before(earlierAt)) {
			return fmt.Errorf("%s of key %s was delivered before %s, which was written earlier", d.name(w), w.key, d.name(earlier))
		}
	}
	return nil
}

// count returns the number of changes that the given host has delivered.
func (d *deliveries) count(host string) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.host[host]
}

// reached returns a channel that is closed when the host has delivered more further
// changes.
func (d *deliveries) reached(host string, more int) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	t := target{d.host[host] + more, make(chan struct{})}
	d.waiting[host] = t
	return t.done
}

// again returns the number of deliveries of changes that had been delivered before.
func (d *deliveries) again() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all) - len(d.first)
}

// mark returns the number of deliveries so far. It is an argument for since.
func (d *deliveries) mark() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.all)
}

// since returns the changes that a host has delivered after a mark, in order.
func (d *deliveries) since(mark int, host string) []delivered {
	d.mu.Lock()
	defer d.mu.Unlock()
	var all []delivered
	for _, c := range d.all[mark:] {
		if c.host == host {
			all = append(all, c)
		}
	}
	return all
}

// summary returns one line about the deliveries.
func (d *deliveries) summary() string {
	again := d.again()
	d.mu.Lock()
	defer d.mu.Unlock()
	var hosts []string
	for h, n := range d.host {
		hosts = append(hosts, fmt.Sprintf("%s %d", h, n))
	}
	slices.Sort(hosts)
	return fmt.Sprintf("%d writes, %d deliveries (%s), %d of them again", len(d.written), len(d.all), strings.Join(hosts, ", "), again)
}

// deliver records that a host has delivered a change. at is the time in milliseconds.
func deliver(d *deliveries, host, at, operation, id, n string) {
	d.line([]string{"change", host, at, operation, "k", id, n})
}

func TestUndeliveredChangeIsReportedAsMissing(t *testing.T) {
	d := newDeliveries(false)
	for n, id := range []string{"a", "b", hot + "k", hot + "k", "c"} {
		d.wrote(written{"create", "k", id, int64(n)})
	}
	d.wrote(written{"delete", "k", "c", 4})
	deliver(d, "go-a", "1", "", "a", "0")
	deliver(d, "go-a", "2", "", hot+"k", "2") // an older version of the item, which is not expected
	if got := strings.Join(d.missing(), " "); got != "b=1 hot-k=3" {
		t.Errorf("missing are %q", got)
	}
}

func TestUndeliveredVersionsAndDeletesAreReportedAsMissing(t *testing.T) {
	d := newDeliveries(true)
	d.wrote(written{"create", "k", "a", 1})
	d.wrote(written{"replace", "k", "a", 2})
	d.wrote(written{"delete", "k", "a", 2})
	deliver(d, "java-a", "1", "create", "a", "1")
	if got := strings.Join(d.missing(), ", "); got != "replace a=2, delete a" {
		t.Errorf("missing are %q", got)
	}
}

func TestChangeDeliveredOutOfOrderIsFound(t *testing.T) {
	d := newDeliveries(false)
	d.wrote(written{"create", "k", "a", 1})
	d.wrote(written{"create", "k", "b", 2})
	deliver(d, "go-a", "10", "", "a", "1")
	deliver(d, "go-a", "11", "", "b", "2")
	deliver(d, "java-a", "12", "", "a", "1") // a repeated delivery is allowed
	if err := d.order(); err != nil {
		t.Error(err)
	}
	deliver(d, "java-a", "9", "", "b", "2")
	if d.order() == nil {
		t.Error("b was delivered before a by one host, and that wasn't found")
	}
	if d.again() != 2 {
		t.Errorf("%d deliveries were again, want 2", d.again())
	}
}

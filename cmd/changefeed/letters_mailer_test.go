package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/letters"
	"github.com/changefeed-go/changefeed/storetype"
)

// mailer is a processor with letters on an account. Its handler fails with the items that are broken.
type mailer struct {
	*account
	park changefeed.Park
	// lettersIn is the account that has the letters.
	lettersIn *account
	// change changes the configuration of the processor, if it is set.
	change func(*changefeed.Config)

	mu      sync.Mutex
	broken  map[string]bool
	handled []string
}

func newMailer(t *testing.T) *mailer {
	t.Helper()
	a := newAccount(t)
	if _, err := a.db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: "letters", KeyPaths: []string{letters.KeyPath}}); err != nil {
		t.Fatal(err)
	}
	return &mailer{account: a, lettersIn: a, broken: map[string]bool{}}
}

// start runs the processor until the test calls stop.
func (m *mailer) start() (stop func()) {
	m.t.Helper()
	stored, err := m.lettersIn.db.Container(m.t.Context(), "shop", "letters")
	if err != nil {
		m.t.Fatal(err)
	}
	return m.handling(func(_ context.Context, b *changefeed.Batch) error {
		m.mu.Lock()
		defer m.mu.Unlock()
		for i := range b.Changes {
			id, err := b.Changes[i].ID()
			if err != nil {
				return err
			}
			if m.broken[id] && strings.HasPrefix(id, "stop") {
				return changefeed.Stop(errors.New("no table"))
			}
			if m.broken[id] {
				return changefeed.Permanent(errors.New("no such address"))
			}
			m.handled = append(m.handled, id)
		}
		return nil
	}, func(c *changefeed.Config) {
		c.Failure = changefeed.Failure{Attempts: 1, Letters: m.lettersIn.db.Letters(stored), Park: m.park}
		if m.change != nil {
			m.change(c)
		}
	})
}

// write writes an item of a customer, and waits until it was handled or is a letter.
func (m *mailer) write(customer, id string) {
	m.t.Helper()
	if _, err := m.orders.Upsert(m.t.Context(), nil, fmt.Appendf(nil, `{"id":%q,"customer":%q}`, id, customer), storetype.WriteOptions{}); err != nil {
		m.t.Fatal(err)
	}
	m.until(func() bool { return slices.Contains(m.done(), id) || strings.Contains(m.letterList(), id+" ") })
}

// breaks makes the handler fail with items, or mends it.
func (m *mailer) breaks(items ...string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.broken)
	for _, id := range items {
		m.broken[id] = true
	}
}

// done returns the items that were handled, in their order.
func (m *mailer) done() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.handled)
}

// stored returns the letters.
func (m *mailer) stored() (all []letters.Letter) {
	m.t.Helper()
	c, err := m.lettersIn.db.Container(m.t.Context(), "shop", "letters")
	if err != nil {
		m.t.Fatal(err)
	}
	s, err := m.lettersIn.db.Letters(c).Open(m.t.Context(), letters.Key{})
	if err != nil {
		m.t.Fatal(err)
	}
	for l, err := range s.Read(m.t.Context(), letters.Query{}) {
		if err != nil {
			m.t.Fatal(err)
		}
		all = append(all, l)
	}
	return all
}

// letterList returns the items and states of the letters, each followed by a space.
func (m *mailer) letterList() string {
	m.t.Helper()
	var b strings.Builder
	for _, l := range m.stored() {
		fmt.Fprintf(&b, "%s %s, ", l.ItemID, l.State)
	}
	return b.String()
}

// letterOf returns the id of the letter of an item.
func (m *mailer) letterOf(item string) string {
	m.t.Helper()
	for _, l := range m.stored() {
		if l.ItemID == item {
			return l.ID
		}
	}
	m.t.Fatalf("there is no letter of %s", item)
	return ""
}

func (m *mailer) until(done func() bool) {
	m.t.Helper()
	for deadline := time.Now().Add(long); !done(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			m.t.Fatalf("it takes too long; handled: %v; letters: %s", m.done(), m.letterList())
		}
	}
}

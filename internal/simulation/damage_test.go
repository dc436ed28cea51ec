package simulation

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// If a lease document cannot be read, the processor leaves it alone and reports its
// token. The processor continues with the other leases.
func TestUnreadableLeaseDocumentStopsNoOtherLease(t *testing.T) {
	onEachEngine(t, []option{partitions(3)}, func(t *testing.T, c worldConfig, e engine) {
		damaged, ok := e.(interface {
			damage(t *testing.T, token string)
		})
		if !ok {
			t.Skip("the engine in memory has no documents")
		}
		c.engine, c.keepTrace = e, true
		s := &scene{world: newWorld(c), t: t, notes: map[*host][]changefeed.Notification{}}
		s.setAdjust(func(h *host, cfg *changefeed.Config) { cfg.Notify = s.noted(h) })
		s.open()
		defer s.judge()
		first := s.join("first")
		s.initialised()
		parts := s.engine.partitions()
		bad := s.keyIn(parts[1].Range)
		s.addTo(bad)
		s.sleep(30 * time.Second)
		first.leave()
		<-first.done
		damaged.damage(t, parts[1].ID)
		second := s.join("second")
		s.addTo(bad)
		for _, i := range []int{0, 2} {
			s.addTo(s.keyIn(parts[i].Range))
		}
		s.sleep(2 * time.Minute)
		if n := s.owned(second); n != 2 || s.missing() != 1 {
			t.Errorf("the host owns %d leases and %d changes are missing; want 2 leases and the 1 change of the damaged lease", n, s.missing())
		}
		listing := s.list()
		if len(listing.Unreadable) != 1 || listing.Unreadable[0].Token != parts[1].ID {
			t.Errorf("unreadable: %+v", listing.Unreadable)
		}
		named := 0
		for _, n := range s.notesOf(second) {
			var failure *changefeed.LeaseStoreError
			if n.LeaseToken == parts[1].ID && errors.As(n.Err, &failure) && strings.Contains(n.Err.Error(), "version") {
				named++
			}
		}
		if named < 3 {
			t.Errorf("the lease was named %d times in two minutes: %+v", named, s.notesOf(second))
		}
	})
}

// damage overwrites a lease's document with one of an unknown version.
func (e *storeEngine) damage(t *testing.T, token string) { damageLease(t, e.documents, token) }

func (e *cosmosEngine) damage(t *testing.T, token string) {
	damageLease(t, e.leasesContainer, token)
}

func damageLease(t *testing.T, c *store.Container, token string) {
	t.Helper()
	page, err := c.Items(t.Context(), storetype.ItemsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for _, item := range page.Items {
		text := string(item.Body)
		if !strings.Contains(text, fmt.Sprintf(`"LeaseToken":%q`, token)) {
			continue
		}
		text = strings.Replace(text, `"version":0`, `"version":7`, 1)
		if _, err := c.Upsert(t.Context(), nil, []byte(text), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("no document of lease %s among %d", token, len(page.Items))
}

package letterstest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
)

// suite is the state of one running case: the fixture, and the open store of mailer.
type suite struct {
	*testing.T
	Fixture
	ctx   context.Context
	store letters.Store
}

// mailer is the key of the store that the cases use.
var mailer = letters.Key{Processor: "mailer", Source: feed.ContainerID{Account: "shop", RID: "O7RwAKylJbY="}, Database: "shop", Container: "orders"}

func (s *suite) open(k letters.Key) letters.Store {
	s.Helper()
	store, err := s.Container.Open(s.ctx, k)
	if err != nil {
		s.Fatalf("open the letters of %q: %v", k.Processor, err)
	}
	return store
}

// written is when the changes of the suite were written.
var written = time.Date(2026, 11, 24, 9, 30, 0, 0, time.UTC)

// letter returns a new letter for an item of ada.
func letter(item string, lsn int64) letters.Letter {
	return letters.Letter{
		PartitionKey: feed.PartitionKey{"ada"}, Hash: "0AB1", ItemID: item, LSN: lsn, Time: written, Operation: feed.Replace,
		Current:  json.RawMessage(fmt.Sprintf(`{"id":%q,"customer":"ada","n":%d}`, item, lsn)),
		Previous: json.RawMessage(fmt.Sprintf(`{"id":%q,"customer":"ada","n":0}`, item)),
		State:    letters.Dead, Error: "no such address: <ada & \"co\">", Stack: "goroutine 1\n\tmain.go:7", Attempts: 3,
		Host: "host/1", Lease: "0", First: written.Add(time.Minute), Last: written.Add(2*time.Minute + 345*time.Millisecond),
	}
}

// of returns l with another key in the source.
func of(l letters.Letter, hash string, key ...any) letters.Letter {
	l.Hash, l.PartitionKey = hash, key
	return l
}

func (s *suite) put(all ...letters.Letter) {
	s.Helper()
	for _, l := range all {
		if err := s.store.Put(s.ctx, l); err != nil {
			s.Fatalf("put item %s, LSN %d: %v", l.ItemID, l.LSN, err)
		}
	}
}

// read returns the letters that a query selects.
func (s *suite) read(q letters.Query) []letters.Letter {
	s.Helper()
	return s.readFrom(s.store, q)
}

func (s *suite) readFrom(store letters.Store, q letters.Query) (all []letters.Letter) {
	s.Helper()
	for l, err := range store.Read(s.ctx, q) {
		if err != nil {
			s.Fatalf("read %+v: %v", q, err)
		}
		if l.ID == "" || l.Group == "" || l.ETag == "" || l.Sequence == "" {
			s.Fatalf("a letter without ID, Group, ETag or Sequence: %+v", l)
		}
		all = append(all, l)
	}
	return all
}

// only returns the one letter in the store.
func (s *suite) only() letters.Letter {
	s.Helper()
	all := s.read(letters.Query{})
	if len(all) != 1 {
		s.Fatalf("the store has %d letters; want 1", len(all))
	}
	return all[0]
}

func (s *suite) get(l letters.Letter) letters.Letter {
	s.Helper()
	got, err := s.store.Get(s.ctx, l.Group, l.ID)
	if err != nil {
		s.Fatalf("get letter %s: %v", l.ID, err)
	}
	return got
}

func (s *suite) update(l letters.Letter) letters.Letter {
	s.Helper()
	got, err := s.store.Update(s.ctx, l)
	if err != nil {
		s.Fatalf("update letter %s: %v", l.ID, err)
	}
	if got.ETag == l.ETag {
		s.Fatalf("an update of letter %s did not change its ETag", l.ID)
	}
	return got
}

func (s *suite) delete(l letters.Letter) {
	s.Helper()
	if err := s.store.Delete(s.ctx, l); err != nil {
		s.Fatalf("delete letter %s: %v", l.ID, err)
	}
}

// stored returns what the store should return for a letter that was put with the key of mailer
// and is stored as got.
func stored(put, got letters.Letter) letters.Letter {
	put.ID, put.Group, put.Sequence, put.ETag, put.Parts = got.ID, got.Group, got.Sequence, got.ETag, got.Parts
	put.Processor, put.Source, put.Database, put.Container = mailer.Processor, mailer.Source, mailer.Database, mailer.Container
	return put
}

// listed returns l as Read returns it.
func listed(l letters.Letter) letters.Letter {
	l.Current, l.Previous, l.Stack = nil, nil, ""
	return l
}

func (s *suite) wantSame(what string, got, want letters.Letter) {
	s.Helper()
	same := bytes.Equal(got.Current, want.Current) && bytes.Equal(got.Previous, want.Previous) &&
		got.Time.Equal(want.Time) && got.First.Equal(want.First) && got.Last.Equal(want.Last)
	got.Current, got.Previous, got.Time, got.First, got.Last = want.Current, want.Previous, want.Time, want.First, want.Last
	if !same || !reflect.DeepEqual(got, want) {
		s.Fatalf("%s (bodies and times equal: %t):\n%.2000v\nwant\n%.2000v", what, same, fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want))
	}
}

// wantItems checks the items and LSNs of letters, in order, as "item@lsn".
func (s *suite) wantItems(what string, got []letters.Letter, want ...string) {
	s.Helper()
	items := []string{}
	for _, l := range got {
		items = append(items, fmt.Sprintf("%s@%d", l.ItemID, l.LSN))
	}
	if len(items) != len(want) || len(want) > 0 && !reflect.DeepEqual(items, want) {
		s.Errorf("%s: %v; want %v", what, items, want)
	}
}

func (s *suite) wantConflict(what string, err error, current letters.Letter) {
	s.Helper()
	var conflict *letters.ConflictError
	if !errors.As(err, &conflict) {
		s.Fatalf("%s: %v; want a *letters.ConflictError", what, err)
	}
	s.wantSame(what+": Current", conflict.Current, current)
}

func (s *suite) wantNotFound(what string, err error) {
	s.Helper()
	if !errors.Is(err, feed.ErrNotFound) {
		s.Fatalf("%s: %v; want feed.ErrNotFound", what, err)
	}
}

// documents returns how many documents the container has.
func (s *suite) documents() int {
	s.Helper()
	n, err := s.Documents(s.ctx)
	if err != nil {
		s.Fatal(err)
	}
	return n
}

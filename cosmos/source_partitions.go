package cosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/follow"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// GET pkranges returns the live partitions as increments. The first response is the
// complete list, perhaps in pages. The same request with the etag of the last response
// returns the changes since, until 304. A range that is the parent of another one is
// retired.

// maxIncrements limits the requests for a list. Without the limit, a service whose etag
// changes with every response would be requested forever.
const maxIncrements = 100

// maxTilings limits the attempts to read a list without gaps. During a split, the service
// may list only one child and no parent.
const maxTilings = 3

// errNoTiling reports that the listed partitions do not cover all keys once.
var errNoTiling = errors.New("the partitions do not cover all keys; a split or merge is running")

// Partitions requests the live partitions. It returns [feed.ErrNotFound], a
// *[RecreatedError], a *[feed.ThrottledError], or an error that names a missing right.
func (s *Source) Partitions(ctx context.Context) ([]feed.Partition, error) {
	p, err := s.known(ctx)
	if err != nil {
		return nil, err
	}
	live, _, err := s.list(ctx, p)
	return live, err
}

// list returns the live partitions and the charge of their requests.
func (s *Source) list(ctx context.Context, p *properties) (live []feed.Partition, charge float64, err error) {
	for range maxTilings {
		var all keyRanges
		err = s.listOnce(ctx, p, &all)
		charge += all.charge
		if err != nil {
			return nil, charge, err
		}
		if live, err = all.live(); err == nil {
			s.keep(live)
			return slices.Clone(live), charge, nil
		}
	}
	return nil, charge, fmt.Errorf("list the partitions of %s: %w", s.what(), err)
}

// keep stores the live partitions. It deletes the session tokens of partitions that are
// neither live nor a parent of a live one.
func (s *Source) keep(live []feed.Partition) {
	named := map[string]bool{}
	for _, p := range live {
		named[p.ID] = true
		for _, parent := range p.Parents {
			named[parent] = true
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.partitions = live
	maps.DeleteFunc(s.sessions, func(id, _ string) bool { return !named[id] })
}

// keyRange is a partition as the service's JSON describes it.
type keyRange struct {
	ID      string   `json:"id"`
	Min     string   `json:"minInclusive"`
	Max     string   `json:"maxExclusive"`
	Parents []string `json:"parents"`
}

// keyRanges collects the partitions of all responses of one list.
type keyRanges struct {
	byID   map[string]keyRange
	charge float64
}

// listOnce requests the list until the service reports no more changes, and adds each
// response to all.
func (s *Source) listOnce(ctx context.Context, p *properties, all *keyRanges) error {
	all.byID = map[string]keyRange{}
	etag, continuation := "", ""
	for range maxIncrements {
		q := &call{span: "Source.ReadPartitions", op: "list the partitions", path: s.path() + "/pkranges", header: s.header()}
		q.header.Set(wire.HeaderMaxItemCount, "-1")
		if etag != "" {
			q.header.Set("If-None-Match", etag)
		}
		if continuation != "" {
			q.header.Set(wire.HeaderContinuation, continuation)
		}
		a, err := s.account.client.do(ctx, q)
		all.charge += q.charge
		switch {
		case err != nil:
			return err
		case a.status == http.StatusNotModified:
			return nil
		case a.is(http.StatusGone, wire.SubNameCacheStale):
			if err := s.verify(ctx, p); err != nil {
				return err
			}
			fallthrough
		case a.status != http.StatusOK:
			return s.refusal(actionMetadata).failure("list the partitions", a)
		}
		if err := s.addIncrement(p, all, a.body); err != nil {
			return err
		}
		if continuation = a.header.Get(wire.HeaderContinuation); continuation != "" {
			continue // request the next page of this increment, with the same etag
		}
		next := a.header.Get("Etag")
		if next == "" {
			return nil // without an etag, the list is complete
		}
		etag = next
	}
	return fmt.Errorf("list the partitions of %s: the list has no end after %d responses", s.what(), maxIncrements)
}

// addIncrement adds the partitions in the body of a response to all. It returns an error
// if the body is of another container.
func (s *Source) addIncrement(p *properties, all *keyRanges, body []byte) error {
	var list struct {
		RID    string     `json:"_rid"`
		Ranges []keyRange `json:"PartitionKeyRanges"`
	}
	if err := json.Unmarshal(body, &list); err != nil {
		return fmt.Errorf("list the partitions of %s: %w", s.what(), err)
	}
	if list.RID != "" && list.RID != p.rid {
		return s.recreated(p, list.RID)
	}
	for _, r := range list.Ranges {
		if r.ID == "" {
			return fmt.Errorf("list the partitions of %s: a partition has no id", s.what())
		}
		all.byID[r.ID] = r
	}
	return nil
}

// live returns the partitions that no other one replaces, in the order of their ranges.
// It returns an error if they do not cover all keys once.
func (all *keyRanges) live() ([]feed.Partition, error) {
	retired := map[string]bool{}
	for _, r := range all.byID {
		for _, parent := range r.Parents {
			retired[parent] = true
		}
	}
	var live []feed.Partition
	for _, r := range all.byID {
		if !retired[r.ID] {
			live = append(live, feed.Partition{ID: r.ID, Range: feed.Range{Min: strings.ToUpper(r.Min), Max: strings.ToUpper(r.Max)}, Parents: r.Parents})
		}
	}
	over, at := follow.Over(feed.Full(), live, func(p feed.Partition) feed.Range { return p.Range })
	if at != feed.MaxEPK || len(over) < len(live) {
		return nil, errNoTiling
	}
	return over, nil
}

// holding returns the partitions that hold keys of a range. It uses the last list, or a
// new one if there is none or anew is set.
func (s *Source) holding(ctx context.Context, p *properties, r feed.Range, anew bool) (some []feed.Partition, charge float64, err error) {
	s.mu.Lock()
	live := s.partitions
	s.mu.Unlock()
	if live == nil || anew {
		if live, charge, err = s.list(ctx, p); err != nil {
			return nil, charge, err
		}
	}
	some, _ = follow.Over(r, live, func(p feed.Partition) feed.Range { return p.Range })
	return some, charge, nil
}

package server

import (
	"cmp"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/store"
)

// adminFault is the JSON form of a fault in the admin API. Durations are in milliseconds.
type adminFault struct {
	ID   string `json:"id,omitempty"`
	Hits int    `json:"hits"`
	Fault
	Min string          `json:"min,omitempty"`
	Max string          `json:"max,omitempty"`
	Key json.RawMessage `json:"key,omitempty"`
	// Probability is a pointer to distinguish a missing member from 0. If nil, the fault
	// always applies. 0 is an error, because such a fault would never apply.
	Probability  *float64 `json:"probability,omitempty"`
	DelayMS      int64    `json:"delayMs,omitempty"`
	RetryAfterMS int64    `json:"retryAfterMs,omitempty"`
}

// fault converts the JSON that a client sent to a Fault. It returns an error for an
// invalid combination of members.
func (a adminFault) fault() (Fault, error) {
	f := a.Fault
	if a.ID != "" || a.Hits != 0 {
		return f, badRequest("the server sets id and hits; leave them out")
	}
	if a.Probability != nil {
		if f.Probability = *a.Probability; f.Probability == 0 {
			return f, badRequest("the probability is 0, so the fault would never apply; give a number above 0 and up to 1, or leave it out for always")
		}
	}
	const most = int64(maxFaultDelay / time.Millisecond)
	if a.DelayMS > most || a.RetryAfterMS > most {
		return f, badRequest("delayMs and retryAfterMs are at most %d", most)
	}
	f.Delay, f.RetryAfter = time.Duration(a.DelayMS)*time.Millisecond, time.Duration(a.RetryAfterMS)*time.Millisecond
	if a.Min != "" || a.Max != "" {
		f.Range = feed.Range{Min: a.Min, Max: cmp.Or(a.Max, feed.MaxEPK)}
	}
	if len(a.Key) > 0 {
		var err error
		if f.Key, err = feed.ParsePartitionKey(string(a.Key)); err != nil {
			return f, badRequest("key is not a partition key, which is %s", keyArray)
		}
	}
	return f, nil
}

func newAdminFault(s FaultState) adminFault {
	f := s.Fault
	a := adminFault{
		ID: s.ID, Hits: s.Hits, Fault: f, Min: f.Range.Min, Max: f.Range.Max,
		DelayMS: f.Delay.Milliseconds(), RetryAfterMS: f.RetryAfter.Milliseconds(),
	}
	if f.Probability > 0 {
		a.Probability = &f.Probability
	}
	if len(f.Key) > 0 {
		a.Key = json.RawMessage(f.Key.String())
	}
	return a
}

// adminListFaults answers with the active faults, in the order in which requests are
// compared with them.
func (s *Server) adminListFaults(x *request, _ []string) error {
	faults := []adminFault{}
	for _, f := range s.faults.List() {
		faults = append(faults, newAdminFault(f))
	}
	return x.sendJSON(http.StatusOK, map[string]any{"faults": faults})
}

// adminAddFault adds the fault in the body, and answers with the fault and its new ID.
func (s *Server) adminAddFault(x *request, _ []string) error {
	var body adminFault
	if err := x.adminBody(&body); err != nil {
		return err
	}
	f, err := body.fault()
	if err != nil {
		return err
	}
	set, err := s.faults.add(f)
	if err != nil {
		return badRequest("%v", err)
	}
	return x.sendJSON(http.StatusCreated, newAdminFault(set))
}

// adminClearFaults removes all faults.
func (s *Server) adminClearFaults(x *request, _ []string) error {
	s.faults.Clear()
	return x.sendEmpty(http.StatusNoContent)
}

// adminRemoveFault removes the fault whose ID is in the path. If there is none, it
// answers 404.
func (s *Server) adminRemoveFault(x *request, vars []string) error {
	if !s.faults.Remove(vars[0]) {
		return failure(http.StatusNotFound, wire.SubNone, "there is no fault %.40q", vars[0])
	}
	return x.sendEmpty(http.StatusNoContent)
}

// adminFreeze returns the operation that freezes a partition, or the operation that thaws
// one if freeze is false.
func (s *Server) adminFreeze(freeze bool) func(*request, []string) error {
	return func(x *request, vars []string) error {
		c, err := x.adminContainer(vars)
		if err != nil {
			return err
		}
		if freeze {
			err = s.Freeze(x.r.Context(), (*store.Container)(c), vars[2])
		} else {
			err = s.Thaw(x.r.Context(), (*store.Container)(c), vars[2])
		}
		if err != nil {
			return s.adminGone(x, c, err)
		}
		return x.sendEmpty(http.StatusNoContent)
	}
}

// adminFrozen is a frozen range in the admin API.
type adminFrozen struct {
	Database  string `json:"database"`
	Container string `json:"container"`
	Min       string `json:"min"`
	Max       string `json:"max"`
}

// adminListFrozen answers with all frozen ranges, in the order of their containers and keys.
// It is an operation of the whole server, because a client could not find the containers
// while a fault makes it fail.
func (s *Server) adminListFrozen(x *request, _ []string) error {
	frozen := []adminFrozen{}
	for _, f := range s.freezes.list() {
		id := f.container.Identity()
		frozen = append(frozen, adminFrozen{id.Database, id.Container, f.keys.Min, f.keys.Max})
	}
	slices.SortFunc(frozen, func(a, b adminFrozen) int {
		return cmp.Or(cmp.Compare(a.Database, b.Database), cmp.Compare(a.Container, b.Container), cmp.Compare(a.Min, b.Min))
	})
	return x.sendJSON(http.StatusOK, map[string]any{"frozen": frozen})
}

// adminThawAll ends all freezes.
func (s *Server) adminThawAll(x *request, _ []string) error {
	for _, f := range s.freezes.list() {
		s.freezes.thaw(f.container, f.keys)
	}
	return x.sendEmpty(http.StatusNoContent)
}

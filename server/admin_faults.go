package server

import (
	"cmp"
	"encoding/json"
	"net/http"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/store"
)

// adminFault is a fault as the admin API has it: with durations in milliseconds.
type adminFault struct {
	ID   string `json:"id,omitempty"`
	Hits int    `json:"hits"`
	Fault
	Min string          `json:"min,omitempty"`
	Max string          `json:"max,omitempty"`
	Key json.RawMessage `json:"key,omitempty"`
	// Probability is nil for always. 0, which is never, is not a fault.
	Probability  *float64 `json:"probability,omitempty"`
	DelayMS      int64    `json:"delayMs,omitempty"`
	RetryAfterMS int64    `json:"retryAfterMs,omitempty"`
}

// fault reads what a client sent.
func (a adminFault) fault() (Fault, error) {
	f := a.Fault
	if a.ID != "" || a.Hits != 0 {
		return f, badRequest("id and hits are the server's to say")
	}
	if a.Probability != nil {
		if f.Probability = *a.Probability; f.Probability == 0 {
			return f, badRequest("the probability is 0, so the fault would choose nothing; it is above 0 and up to 1, and always when left out")
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
			return f, badRequest("key is no partition key, a JSON array: %v", err)
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

// adminListFaults lists the faults that are set, in the order in which they are tried.
func (s *Server) adminListFaults(x *request, _ []string) error {
	faults := []adminFault{}
	for _, f := range s.faults.List() {
		faults = append(faults, newAdminFault(f))
	}
	return x.sendJSON(http.StatusOK, map[string]any{"faults": faults})
}

// adminAddFault sets a fault, and answers with it and its id.
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

// adminClearFaults ends all faults.
func (s *Server) adminClearFaults(x *request, _ []string) error {
	s.faults.Clear()
	return x.sendEmpty(http.StatusNoContent)
}

// adminRemoveFault ends one fault.
func (s *Server) adminRemoveFault(x *request, vars []string) error {
	if !s.faults.Remove(vars[0]) {
		return failure(http.StatusNotFound, wire.SubNone, "there is no fault %.40q", vars[0])
	}
	return x.sendEmpty(http.StatusNoContent)
}

// adminFreeze holds the requests of a partition, or lets them go on.
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

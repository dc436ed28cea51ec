package server

import (
	"encoding/binary"
	"encoding/json"

	"github.com/changefeed-go/changefeed/internal/engine"
)

// resumeFilter in the body of a query: .NET's SDK, which merges the sorted rows of several ranges, goes on from a continuation of its own
// by telling each range the values of the last row that it gave out.
//
// Supported: values of every type but arrays and objects, which the SDK tells by a hash; rid, which says at whose row the
// rows with equal values begin; exclude, which leaves them all out; beside x-ms-continuation the one counts that is further on.
// Refused: a query without ORDER BY, and OFFSET, which would be counted from nobody knows where (plans have none left).

// resumeFilter is the member of a query's body.
type resumeFilter struct {
	// Value are the sort keys' values. An empty array is undefined.
	Value []json.RawMessage `json:"value"`
	// RID is a document's.
	RID     string `json:"rid"`
	Exclude bool   `json:"exclude"`
}

// resumeAt sets the place at which a query with a resumeFilter begins.
func (x *exchange) resumeAt(c *engine.Container, run *queryRun) error {
	if x.resume == nil {
		return nil
	}
	var f resumeFilter
	if err := json.Unmarshal(x.resume, &f); err != nil {
		return badRequest(`resumeFilter is {"value": [values], "rid": text, "exclude": boolean}: %v`, err)
	}
	if len(run.shape.OrderBy) == 0 || run.shape.Grouped || run.position.skip > 0 {
		return badRequest("resumeFilter says where a query with ORDER BY and without OFFSET and GROUP BY goes on, and this one is none")
	}
	from := uint64(0)
	if f.RID != "" {
		var ok bool
		if from, ok = numberOf(f.RID, c.Identity().ContainerRID); !ok {
			return badRequest("the rid of resumeFilter is %.40q, which is none of a document in this container", f.RID)
		}
	}
	at, err := run.b.Resume(f.Value, from, f.Exclude)
	if err != nil {
		return badRequest("the value of resumeFilter: %v", err)
	}
	if last := run.position.last; last == nil || run.b.NewSorter(0, nil).Compare(*at, *last) > 0 {
		run.position.last = at
	}
	return nil
}

// numberOf is the number of a document in its container, by its rid. ok is false when it is of another one, or no document's.
func numberOf(rid, container string) (n uint64, ok bool) {
	b, err := ridEncoding.DecodeString(rid)
	owner, ownerErr := ridEncoding.DecodeString(container)
	if err != nil || ownerErr != nil || len(b) != 2*len(owner) || string(b[:len(owner)]) != string(owner) {
		return 0, false
	}
	return uint64(binary.BigEndian.Uint32(b[len(owner):])), true
}

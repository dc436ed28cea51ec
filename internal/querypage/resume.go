package querypage

import (
	"encoding/binary"
	"encoding/json"

	"github.com/changefeed-go/changefeed/internal/layout"
)

// resumeFilter is a member in the body of a query. The SDK of .NET merges the sorted rows
// of several ranges. It resumes from a continuation of its own, and sends to each range
// the values of the last row that it returned.
//
// Supported: values of every type. In place of an array or object is its hash. rid names a document. If other rows have equal values, the page begins with the
// row of that document. exclude omits all rows with equal values. If the request also has
// x-ms-continuation, the later of the two positions is used. Refused: a query without
// ORDER BY, and a query with OFFSET, which would skip rows from an unknown position. The
// queries of plans have no OFFSET.
type resumeFilter struct {
	// Value holds the values of the sort keys. An empty array means undefined.
	Value []json.RawMessage `json:"value"`
	// RID is the rid of a document.
	RID     string `json:"rid"`
	Exclude bool   `json:"exclude"`
}

// resumeAt sets the position at which the page begins, from the resumeFilter of the
// request.
func (p *Page) resumeAt(filter json.RawMessage) error {
	if filter == nil {
		return nil
	}
	var f resumeFilter
	if err := json.Unmarshal(filter, &f); err != nil {
		return badRequest(`resumeFilter is %.60s, which is not of the form {"value": [values], "rid": text, "exclude": boolean}`, filter)
	}
	if len(p.shape.OrderBy) == 0 || p.shape.Grouped || p.start.offset > 0 {
		return badRequest("resumeFilter resumes only a query with ORDER BY and without OFFSET and GROUP BY, which this query is not")
	}
	from := uint64(0)
	if f.RID != "" {
		var ok bool
		if from, ok = numberOf(f.RID, p.rid()); !ok {
			return badRequest("the rid of resumeFilter is %.40q, which is not the rid of a document in this container", f.RID)
		}
	}
	at, err := p.query.Resume(f.Value, from, f.Exclude)
	if err != nil {
		return badRequest("the value of resumeFilter: %v", err)
	}
	if last := p.start.last; last == nil || p.query.NewSorter(0, nil).Compare(*at, *last) > 0 {
		p.start.last = at
	}
	return nil
}

// numberOf returns the number of a document from its rid. ok is false if the rid does not
// belong to the container.
func numberOf(rid, container string) (n uint64, ok bool) {
	b, err := layout.RIDEncoding.DecodeString(rid)
	owner, ownerErr := layout.RIDEncoding.DecodeString(container)
	if err != nil || ownerErr != nil || len(b) != 2*len(owner) || string(b[:len(owner)]) != string(owner) {
		return 0, false
	}
	return uint64(binary.BigEndian.Uint32(b[len(owner):])), true
}

package querypage

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query"
)

// Item is an element of a list: a resource as JSON, and the key that the list is sorted
// by.
type Item struct {
	Key  string
	Body []byte
}

// itemOverhead is the approximate memory of a row in bytes, without its key and its JSON.
const itemOverhead = 64

// List returns the rows of a query over a list that is sorted by key. The rows are sorted
// by their own keys, so that they can be returned in pages. It returns an *[Error] if
// they take more than maxMemory bytes.
func List(ctx context.Context, b *query.Bound, all []Item, maxMemory int) ([]Item, error) {
	shape, eval := b.Shape(), b.Rows().While(ctx.Err)
	if shape.NoSource {
		all = []Item{{Body: emptyDocument}}
	}
	var rows []Item
	groups, held := eval.Groups(math.MaxInt32, nil), 0
	for _, item := range all {
		first := len(rows)
		err := eval.Each(item.Body, func() bool {
			if shape.Grouped {
				groups.Add()
			} else if row, ok := eval.Row(); ok {
				key := string(eval.OrderKey(nil)) + item.Key
				if shape.Several {
					key += fmt.Sprintf("/%08x", len(rows)-first)
				}
				rows = append(rows, Item{key, bytes.Clone(row)})
				held += len(key) + len(row) + itemOverhead
			}
			return held+groups.Size() <= maxMemory
		})
		if err != nil {
			return nil, Refused(err)
		}
		if held+groups.Size() > maxMemory {
			return nil, badRequest("the rows of this query take more than %d bytes; join fewer arrays, or select less", maxMemory)
		}
	}
	if shape.Grouped {
		for _, row := range groups.Rows() {
			if row.Row != nil {
				rows = append(rows, Item{string(row.Key), row.Row})
			}
		}
		if err := groups.Err(); err != nil {
			return nil, Refused(err)
		}
	}
	if Sorts(shape) {
		slices.SortFunc(rows, func(a, b Item) int { return strings.Compare(a.Key, b.Key) })
	}
	p := startOf(shape)
	rows = rows[min(p.offset, int64(len(rows))):]
	if p.limit >= 0 {
		rows = rows[:min(p.limit, int64(len(rows)))]
	}
	return rows, nil
}

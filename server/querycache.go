package server

import (
	"sync"

	"github.com/changefeed-go/changefeed/internal/query"
)

// queryCache keeps queries that were parsed: SDKs send the same text for each page, and change the parameters.
//
// It has two generations. A text is looked for in both and kept in the younger; when that is full it becomes the
// older one, and what was in that is forgotten. So what is asked for again and again stays, without a list of
// uses, and the memory is that of two generations.
type queryCache struct {
	mu         sync.Mutex // guards the rest, for lookups only
	young, old map[string]*query.Query
	size       int // bytes of text in young
}

// The size of a generation. A parsed query is some tens of times its text.
const (
	cachedQueries   = 256
	cachedQueryText = 64 << 10
	// maxCachedText is the longest text that is kept: longer ones, with a value for each of a thousand items, don't come again.
	maxCachedText = 8 << 10
)

// parse is query.Parse.
func (c *queryCache) parse(text string) (*query.Query, error) {
	if len(text) > maxCachedText {
		return query.Parse(text)
	}
	if q := c.find(text); q != nil {
		return q, nil
	}
	q, err := query.Parse(text)
	if err == nil {
		c.keep(text, q)
	}
	return q, err
}

func (c *queryCache) find(text string) *query.Query {
	c.mu.Lock()
	defer c.mu.Unlock()
	if q := c.young[text]; q != nil {
		return q
	}
	q := c.old[text]
	if q != nil {
		c.add(text, q)
	}
	return q
}

func (c *queryCache) keep(text string, q *query.Query) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.young[text] == nil {
		c.add(text, q)
	}
}

func (c *queryCache) add(text string, q *query.Query) {
	if c.young == nil || len(c.young) >= cachedQueries || c.size+len(text) > cachedQueryText {
		c.young, c.old, c.size = map[string]*query.Query{}, c.young, 0
	}
	c.young[text] = q
	c.size += len(text)
}

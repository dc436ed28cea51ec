package querypage

import (
	"encoding/json"
	"errors"
	"sync"

	"github.com/changefeed-go/changefeed/internal/query"
	"github.com/changefeed-go/changefeed/internal/query/syntax"
)

// Cache keeps compiled queries, because SDKs send the same text for each page with other
// parameters. The zero value is ready to use. It is safe for concurrent use.
//
// The cache has two generations of texts. A text that is found in either is kept in the
// younger generation. When the younger generation is full, it becomes the older one, and
// the previous older one is dropped. So texts in use stay, without a record of each use.
type Cache struct {
	mu         sync.Mutex // guards the fields below; held for lookups only
	young, old map[string]*query.Query
	size       int // bytes of text in young
}

// These are the limits of each of the two generations: the number of queries, and the
// total length of their texts in bytes. A compiled query takes some tens of times the
// memory of its text.
const (
	cachedQueries   = 256
	cachedQueryText = 64 << 10
	// maxCachedText is the length in bytes of the longest text that is cached. Longer
	// texts usually name a thousand items, and clients do not send them twice.
	maxCachedText = 8 << 10
)

// Bind parses a query, or finds it in the cache, and binds its parameters. It returns an
// *[Error] if the query is invalid.
func (c *Cache) Bind(text string, params map[string]json.RawMessage) (*query.Bound, error) {
	q := c.find(text)
	if q == nil {
		var err error
		if q, err = query.Parse(text); err != nil {
			return nil, Refused(err)
		}
		c.keep(text, q)
	}
	b, err := q.Bind(params)
	return b, Refused(err)
}

func (c *Cache) find(text string) *query.Query {
	c.mu.Lock()
	defer c.mu.Unlock()
	q := c.young[text]
	if q == nil {
		if q = c.old[text]; q != nil {
			c.add(text, q)
		}
	}
	return q
}

func (c *Cache) keep(text string, q *query.Query) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(text) <= maxCachedText && c.young[text] == nil {
		c.add(text, q)
	}
}

func (c *Cache) add(text string, q *query.Query) {
	if c.young == nil || len(c.young) >= cachedQueries || c.size+len(text) > cachedQueryText {
		c.young, c.old, c.size = map[string]*query.Query{}, c.young, 0
	}
	c.young[text] = q
	c.size += len(text)
}

// Refused converts an error of package query to an *[Error] with the service's message,
// if a mistake of the client caused it. It returns other errors unchanged.
func Refused(err error) error {
	if err == nil {
		return nil // before the variables, each of which is allocated
	}
	var (
		service     interface{ ServiceMessage() string }
		unsupported *syntax.UnsupportedError
		parameter   *query.ParameterError
		plan        *query.PlanError
	)
	switch {
	case errors.As(err, &service):
		return &Error{message: service.ServiceMessage(), compiled: true}
	case errors.As(err, &unsupported), errors.As(err, &parameter), errors.As(err, &plan):
		return &Error{message: err.Error()}
	}
	return err
}

package server

import (
	"encoding/json"
	"net/http"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/server/query"
	"github.com/changefeed-go/changefeed/store"
)

// POST docs with a plan request: how a client is to ask the partitions for the rows of a query, and what to do with them. Java
// asks for the plan of every query, and the others of what one request can't serve.
//
// Supported: a plan of every query whose rows can be put behind each other, TOP included. Refused, as the query itself is:
// ORDER BY, OFFSET LIMIT, DISTINCT, GROUP BY and aggregates, unless a full partition key makes the range a point. That the container has one
// partition at the moment doesn't help: a plan outlives a split. The continuation of the request is the
// client's own, and isn't looked at, nor is the page size or the list of what the client can do.

func (s *Server) planQuery(x *exchange) error {
	c, err := x.owner()
	if err != nil {
		return err
	}
	b, err := x.query()
	if err != nil {
		return err
	}
	key, err := x.partitionKey()
	if err != nil {
		return err
	}
	props, err := c.Properties(x.r.Context())
	if err != nil {
		return above(err)
	}
	keys := query.Keys{Paths: pathNames(props.KeyPaths), EPK: func(key []any) (string, error) {
		r, err := c.KeyRange(key)
		if err != nil {
			return "", nil //nolint:nilerr // no document has such a key: the query is one without a key, and has no rows
		}
		return r.Min, nil
	}}
	if len(key) == len(props.KeyPaths) {
		r, err := c.KeyRange(key)
		if err != nil {
			return err
		}
		keys.Point = r.Min
	}
	plan, err := b.Plan(keys)
	if err != nil {
		return queryFailure(err)
	}
	x.charge = 1
	return x.sendJSON(http.StatusOK, plan)
}

// conditionKey is the full partition key that the condition of a query asks for; nil: it asks for none, or for one that no document
// can have.
func conditionKey(c *store.Container, b *query.Bound, paths []string) feed.PartitionKey {
	key, ok := b.KeyFilter(pathNames(paths))
	if !ok {
		return nil
	}
	if _, err := c.KeyRange(key); err != nil {
		return nil
	}
	return key
}

// pathNames takes key paths apart: /a/b is a and b, and a name in quotes is a JSON string. The store has checked them.
func pathNames(paths []string) [][]string {
	all := make([][]string, len(paths))
	for i, path := range paths {
		for rest := path; rest != ""; {
			var name string
			name, rest = cutName(rest[1:])
			all[i] = append(all[i], name)
		}
	}
	return all
}

// cutName returns the name that a path begins with, and the rest from the next slash on.
func cutName(path string) (name, rest string) {
	end := 0
	for quoted := false; end < len(path) && (quoted || path[end] != '/'); end++ {
		switch {
		case path[end] == '\\' && quoted:
			end++
		case path[end] == '"' && (quoted || end == 0):
			quoted = !quoted
		}
	}
	end = min(end, len(path))
	name = path[:end]
	if plain := ""; name != "" && name[0] == '"' && json.Unmarshal([]byte(name), &plain) == nil {
		name = plain
	}
	return name, path[end:]
}

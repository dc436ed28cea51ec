package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/query"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// POST docs with a plan request: how a client is to ask the partitions for the rows of a query, and what to do with them. Java
// asks for the plan of every query, and the others of what one request can't serve.
//
// Supported: a plan of every query that has one in the service, with the text that each partition is to be asked: ORDER BY, TOP, OFFSET LIMIT,
// DISTINCT, GROUP BY and aggregates. The continuation of the request is the client's own, and isn't looked at, nor is the page size.
// Where a full partition key makes the range a point, the plan leaves everything to the server.
//
// Refused: compositions of aggregates over several partitions; what the client says it doesn't know; SELECT VALUE with GROUP BY for
// Java, whose SDK fails at its rows. That the container has one partition at the moment doesn't help: a plan outlives a split.

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
	keys := planKeys(c, props.KeyPaths)
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
	if err := x.planFits(plan); err != nil {
		return err
	}
	x.charge = 1
	return x.sendJSON(http.StatusOK, plan)
}

func planKeys(c *engine.Container, paths []string) query.Keys {
	return query.Keys{Paths: pathNames(paths), EPK: func(key []any) (string, error) {
		r, err := c.KeyRange(key)
		if err != nil {
			return "", nil //nolint:nilerr // no document has such a key: the query is one without a key, and has no rows
		}
		return r.Min, nil
	}}
}

// planFits refuses a plan that the client would make wrong rows of, or none.
func (x *exchange) planFits(p query.Plan) error {
	known := map[string]bool{}
	for feature := range strings.SplitSeq(x.header(wire.HeaderQueryFeatures), ",") {
		known[strings.ToLower(strings.TrimSpace(feature))] = true
	}
	missing := ""
	for _, feature := range p.Features() {
		if !known[strings.ToLower(feature)] {
			missing += fmt.Sprintf("\nQuery contained %s, which the calling client does not support.", feature)
		}
	}
	if missing != "" {
		return failure(http.StatusBadRequest, wire.SubCrossPartitionQuery, "Query contains 1 or more unsupported features. "+
			"Upgrade your SDK to a version that does support the requested features:%s", missing)
	}
	if info := p.QueryInfo; info.HasSelectValue && len(info.GroupByExpressions) > 0 && strings.Contains(x.r.UserAgent(), javaAgent) {
		return unsupported("SELECT VALUE with GROUP BY over several partitions, which Java's SDK can't merge,")
	}
	return nil
}

// javaAgent is in the User-Agent of Java's SDK.
const javaAgent = "azsdk-java-cosmos"

// toBePlanned is the answer to a query over a whole container that has to be asked of each partition.
func toBePlanned(c *engine.Container, b *query.Bound, paths []string) error {
	plan, err := b.Plan(planKeys(c, paths))
	if err != nil {
		return queryFailure(err)
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return fmt.Errorf("write the plan: %w", err)
	}
	return &statusError{status: http.StatusBadRequest, substatus: wire.SubCrossPartitionQuery, message: crossPartition, info: string(text)}
}

// conditionKey is the full partition key that the condition of a query asks for; nil: it asks for none, or for one that no document
// can have.
func conditionKey(c *engine.Container, b *query.Bound, paths []string) feed.PartitionKey {
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

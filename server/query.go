package server

import (
	"encoding/json"
	"errors"
	"time"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/query"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// POST docs with a query: its rows, page by page.
//
// Supported: the language of server/query; parameters; the scopes of a feed (container, partition, range of effective partition keys,
// logical key or a prefix of one), in any combination; continuations that survive writes, splits and merges. TOP
// counts over all pages. Filters, projections, joins and TOP work over any number of partitions.
//
// ORDER BY, OFFSET LIMIT, DISTINCT, GROUP BY and aggregates work within a partition key, in the header or as a condition, and
// within a partition or a range of keys. Over a whole container, however many partitions it has at the moment, they are
// answered 400/1004 with their plan (query_plan.go), by which clients ask each partition and merge the rows; what has no plan is
// refused by name. With Options.ServeAllQueries the server does all of it.

// maxQueryBody is the longest body of a query, text and parameters.
const maxQueryBody = 2 << 20

// querySpec is the body of a query.
type querySpec struct {
	Query      *string `json:"query"`
	Parameters []struct {
		Name  string          `json:"name"`
		Value json.RawMessage `json:"value"`
	} `json:"parameters"`
	// ResumeFilter is where the query goes on, by .NET's SDK; see resume.go.
	ResumeFilter json.RawMessage `json:"resumeFilter"`
}

// query reads the query of the request.
func (x *exchange) query() (*query.Bound, error) {
	body, err := x.body(maxQueryBody)
	if err != nil {
		return nil, err
	}
	var spec querySpec
	if err := json.Unmarshal(body, &spec); err != nil {
		return nil, badRequest("the body of a query is %s: %v", querySpecForm, err)
	}
	if spec.Query == nil {
		return nil, badRequest("the body has no query: it is %s", querySpecForm)
	}
	if string(spec.ResumeFilter) != "null" {
		x.resume = spec.ResumeFilter
	}
	if x.resume != nil && x.op != opQuery {
		return nil, unsupported("resumeFilter in anything but a query of documents")
	}
	if err := x.claim.grow(ofBodies, queryFactor*int64(len(*spec.Query))); err != nil {
		return nil, err
	}
	if len(*spec.Query) > longQuery {
		if err := x.enter(forSorts); err != nil {
			return nil, err
		}
	}
	q, err := x.s.queries.parse(*spec.Query)
	if err != nil {
		return nil, queryFailure(err)
	}
	values := make(map[string]json.RawMessage, len(spec.Parameters))
	for _, p := range spec.Parameters {
		if p.Value == nil {
			continue // a parameter without a value is one that isn't there
		}
		values[p.Name] = p.Value
	}
	b, err := q.Bind(values)
	return b, queryFailure(err)
}

const querySpecForm = `{"query": text, "parameters": [{"name": "@name", "value": value}, ...]}`

// crossPartition is the service's sentence about queries that one request can't serve.
const crossPartition = "The provided cross partition query can not be directly served by the gateway. " +
	"This is a first chance (internal) exception that all newer clients will know how to handle gracefully."

// crossPartitionDisabled is the service's sentence to a client that forgot the partition key, and didn't say that it wants all.
const crossPartitionDisabled = "Cross partition query is required but disabled. Please set x-ms-documentdb-query-enablecrosspartition to true, " +
	"specify x-ms-documentdb-partitionkey, or revise your query to avoid this exception."

// queryFailure makes errors of the query those of a request.
func queryFailure(err error) error {
	var syntax *query.SyntaxError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &syntax):
		return badRequest("%s", syntax.ServiceMessage())
	}
	// The others say all that there is to say: what isn't supported, which parameter is wrong.
	return badRequest("%s", err.Error())
}

// evaluationFailure makes what came up at an item that of a request: a query that can't be evaluated for it is the client's mistake.
func evaluationFailure(err error) error {
	var evaluation *query.EvaluationError
	if errors.As(err, &evaluation) {
		return badRequest("%s", evaluation.ServiceMessage())
	}
	return above(err)
}

func (s *Server) queryDocuments(x *exchange) error {
	if isChangeFeed(x) {
		// Previews of .NET's SDK can ask for changes so. As a query of the items it would be answered with others.
		return unsupported("a query over the change feed (the header A-IM with a query)")
	}
	c, err := x.owner()
	if err != nil {
		return err
	}
	run, err := x.newRun(c)
	if err != nil {
		return err
	}
	to := forQueries
	if byKey(run.shape) {
		to = forSorts
	}
	if err := x.enter(to); err != nil {
		return err
	}
	if run.shape.Grouped {
		err = run.grouped(x.r.Context())
	} else if len(run.shape.OrderBy) > 0 {
		err = run.sorted(x.r.Context())
	} else {
		err = run.inOrder(x.r.Context())
	}
	x.charge = max(run.charge, 1)
	if err != nil {
		return evaluationFailure(err)
	}
	x.servedBy(run.served)
	x.tellMetrics(run)
	if run.more {
		if err := x.continueAt(run, c.Identity().ContainerRID); err != nil {
			return err
		}
	}
	x.sendText(run.count, run.page)
	return nil
}

// newRun reads what is asked for, and refuses what can't be answered.
func (x *exchange) newRun(c *engine.Container) (*queryRun, error) {
	b, err := x.query()
	if err != nil {
		return nil, err
	}
	sc, err := x.scope(c)
	if err != nil {
		return nil, err
	}
	props, err := c.Properties(x.r.Context())
	if err != nil {
		return nil, above(err)
	}
	run := &queryRun{c: c, b: b, rows: b.Rows().Until(x.r.Context()), shape: b.Shape(), sortMemory: x.s.budget.sortRows(), time: x.s.pageTime(), metrics: queryMetrics{began: time.Now()}}
	if sc.key == nil {
		sc.key = conditionKey(c, b, props.KeyPaths)
	}
	if sc.key == nil && sc.partition == "" && sc.keys.IsZero() {
		if !x.flag(wire.HeaderCrossPartition) {
			return nil, badRequest("%s", crossPartitionDisabled)
		}
		if run.shape.Merged() && !x.s.o.ServeAllQueries {
			return nil, toBePlanned(c, b, props.KeyPaths)
		}
	}
	run.request = engine.ItemsRequest{Key: sc.key, Range: sc.keys, Partition: sc.partition}
	run.narrow(x.r.Context(), props.KeyPaths)
	if run.max, err = x.maxRows(); err != nil {
		return nil, err
	}
	if run.position, err = x.queryPosition(c, run.shape); err != nil {
		return nil, err
	}
	return run, x.resumeAt(c, run)
}

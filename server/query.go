package server

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/query"
	"github.com/changefeed-go/changefeed/internal/querypage"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// This file serves POST docs with a query, which returns its rows page by page. Package
// querypage reads the rows.
//
// Supported: the language of internal/query; parameters; the selections of a feed, in any
// combination. The selections are container, partition, range of effective partition
// keys, and logical key or a prefix of one. Continuations remain valid after writes,
// splits and merges. TOP counts the rows of all pages. Filters, projections, joins and
// TOP work over any number of partitions.
//
// ORDER BY, OFFSET LIMIT, DISTINCT, GROUP BY and aggregates work within a partition key
// (from the header or the condition), a partition, or a range of keys. Over a whole
// container, even of one partition, the answer is 400/1004 with the plan of the query
// (query_plan.go). With the plan, clients query each partition and merge the rows. A
// query without a plan is refused with an error that names the reason. With
// Options.ServeAllQueries the server answers all of these queries itself.

// maxQueryBody limits the body of a query, in bytes. The body contains the text and the
// parameters.
const maxQueryBody = 2 << 20

// querySpec is the JSON body of a query.
type querySpec struct {
	Query      *string `json:"query"`
	Parameters []struct {
		Name  string          `json:"name"`
		Value json.RawMessage `json:"value"`
	} `json:"parameters"`
	// ResumeFilter is the position from which .NET's SDK resumes a sorted query; see
	// querypage.Request.
	ResumeFilter json.RawMessage `json:"resumeFilter"`
}

// query parses and compiles the query in the body of the request. It also returns the
// resumeFilter in the body, or nil.
func (x *request) query() (*query.Bound, json.RawMessage, error) {
	body, err := x.body(maxQueryBody)
	if err != nil {
		return nil, nil, err
	}
	var spec querySpec
	if err := json.Unmarshal(body, &spec); err != nil {
		return nil, nil, badRequest("the body of a query must be %s: %v", querySpecForm, err)
	}
	if spec.Query == nil {
		return nil, nil, badRequest("the body has no query; it must be %s", querySpecForm)
	}
	if string(spec.ResumeFilter) == "null" {
		spec.ResumeFilter = nil
	}
	if spec.ResumeFilter != nil && x.op != opQuery {
		return nil, nil, unsupported("resumeFilter in anything but a query of documents")
	}
	if err := x.memory.grow(ofBodies, queryFactor*int64(len(*spec.Query))); err != nil {
		return nil, nil, err
	}
	if len(*spec.Query) > longQuery {
		if err := x.acquireSlot(sortSlots); err != nil {
			return nil, nil, err
		}
	}
	values := make(map[string]json.RawMessage, len(spec.Parameters))
	for _, p := range spec.Parameters {
		if p.Value != nil { // a parameter whose value is missing is undefined
			values[p.Name] = p.Value
		}
	}
	b, err := x.s.queries.Bind(*spec.Query, values)
	return b, spec.ResumeFilter, err
}

const querySpecForm = `{"query": text, "parameters": [{"name": "@name", "value": value}, ...]}`

// crossPartition is the service's error message for a query that one request cannot
// answer.
const crossPartition = "The provided cross partition query can not be directly served by the gateway. " +
	"This is a first chance (internal) exception that all newer clients will know " +
	"how to handle gracefully."

// crossPartitionDisabled is the service's error message for a query without a partition
// key whose client did not allow a query over all partitions.
const crossPartitionDisabled = "Cross partition query is required but disabled. Please set x-ms-documentdb-query-enablecrosspartition to true, " +
	"specify x-ms-documentdb-partitionkey, or revise your query to avoid this exception."

func (s *Server) queryDocuments(x *request) error {
	if isChangeFeed(x) {
		// Previews of .NET's SDK send such a request to query the changes. The server
		// would answer it as a query of the documents, which has other rows.
		return unsupported("a query over the change feed (the header A-IM with a query)")
	}
	c, err := x.owner()
	if err != nil {
		return err
	}
	began := time.Now()
	page, to, err := x.queryPage(c)
	if err != nil {
		return err
	}
	if err := x.acquireSlot(to); err != nil {
		return err
	}
	err = page.Read(x.r.Context())
	x.charge = max(page.Charge, 1)
	if err != nil {
		return ownerError(err)
	}
	x.setPartitions(page.Served)
	x.continuation = page.Continuation
	x.setQueryMetrics(page, time.Since(began))
	x.sendText(page.Count, page.Rows)
	return nil
}

// queryPage prepares the page of rows for the request. It also returns the class of the
// slot that reading the page needs.
func (x *request) queryPage(c *engine.Container) (*querypage.Page, slotClass, error) {
	b, resume, err := x.query()
	if err != nil {
		return nil, 0, err
	}
	sc, err := x.selection(c)
	if err != nil {
		return nil, 0, err
	}
	if sc.key == nil {
		sc.key = querypage.ConditionKey(c, b)
	}
	if sc.key == nil && sc.partition == "" && sc.keys.IsZero() {
		if !x.flag(wire.HeaderCrossPartition) {
			return nil, 0, badRequest("%s", crossPartitionDisabled)
		}
		if b.Shape().Merged() && !x.s.o.ServeAllQueries {
			return nil, 0, errPlanned(c, b)
		}
	}
	rows, err := x.maxItems()
	if err != nil {
		return nil, 0, err
	}
	if rows == 0 && x.header(wire.HeaderMaxItemCount) != "" {
		rows = -1
	}
	page, err := querypage.New(x.r.Context(), querypage.Request{
		Container: c, Query: b, Key: sc.key, Range: sc.keys, Partition: sc.partition,
		MaxRows: rows, Continuation: x.header(wire.HeaderContinuation), Resume: resume,
		SortMemory: x.s.budget.sortRows(), Time: x.s.pageTime,
	})
	if querypage.Sorts(b.Shape()) {
		return page, sortSlots, err
	}
	return page, querySlots, err
}

// setQueryMetrics sets the headers with metrics, if the request asks for them. took is
// the time in which the page was read. The server has no indexes and no query optimizer,
// so their times are zero.
func (x *request) setQueryMetrics(p *querypage.Page, took time.Duration) {
	h := x.w.Header()
	if x.flag(wire.HeaderPopulateQueryMetrics) {
		ratio, ms := 1.0, float64(took.Microseconds())/1000
		if p.Documents > 0 {
			ratio = min(float64(p.Count)/float64(p.Documents), 1)
		}
		h.Set(wire.HeaderQueryMetrics, fmt.Sprintf("totalExecutionTimeInMs=%.2f;queryCompileTimeInMs=0.00;queryLogicalPlanBuildTimeInMs=0.00;queryPhysicalPlanBuildTimeInMs=0.00;"+
			"queryOptimizationTimeInMs=0.00;VMExecutionTimeInMs=%.2f;indexLookupTimeInMs=0.00;documentLoadTimeInMs=0.00;systemFunctionExecuteTimeInMs=0.00;"+
			"userFunctionExecuteTimeInMs=0.00;retrievedDocumentCount=%d;retrievedDocumentSize=%d;outputDocumentCount=%d;outputDocumentSize=%d;"+
			"writeOutputTimeInMs=0.00;indexUtilizationRatio=%.2f", ms, ms, p.Documents, p.Bytes, p.Count, len(p.Rows), ratio))
	}
	if x.flag(wire.HeaderPopulateIndexMetrics) {
		h.Set(wire.HeaderIndexMetrics, base64.StdEncoding.EncodeToString([]byte(noIndexes)))
	}
}

// noIndexes is the value of the index metrics header for every query.
const noIndexes = `{"UtilizedSingleIndexes":[],"PotentialSingleIndexes":[],"UtilizedCompositeIndexes":[],"PotentialCompositeIndexes":[]}`

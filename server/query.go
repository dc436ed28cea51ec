package server

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/query"
	"github.com/changefeed-go/changefeed/internal/querypage"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// This file serves POST docs with a query, which returns its rows page by page. Package
// querypage reads the rows.
//
// Supported: the language of internal/query, also as plain text (application/sql);
// parameters; the selections of a feed, in any
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
	Query      *string     `json:"query"`
	Parameters []parameter `json:"parameters"`
	// ResumeFilter is the position from which .NET's SDK resumes a sorted query; see
	// querypage.Request.
	ResumeFilter json.RawMessage `json:"resumeFilter"`
}

// parameter is the JSON of a query's parameter.
type parameter struct {
	Name  string          `json:"name"`
	Value json.RawMessage `json:"value"`
}

// isParameterName reports whether a query can have a parameter of this name.
func isParameterName(name string) bool {
	const letters = "_abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	return len(name) > 1 && name[0] == '@' && strings.Trim(name[1:], letters+"0123456789") == ""
}

// invalidQuery returns the gateway's refusal of a query's parameters.
func invalidQuery(why string) error {
	return refuse(byCompiler, http.StatusBadRequest, wire.SubNone, `{"Errors":[`+string(jsonString("Invalid query. "+why))+`]}`)
}

// query parses and compiles the query in the body of the request. It also returns the
// resumeFilter in the body, or nil.
func (x *request) query() (*query.Bound, json.RawMessage, error) {
	body, err := x.body(maxQueryBody)
	if err != nil {
		return nil, nil, err
	}
	var spec querySpec
	if strings.HasPrefix(strings.ToLower(x.header("Content-Type")), contentTypeSQL) {
		text := string(body)
		spec.Query = &text
	} else if err := json.Unmarshal(body, &spec); err != nil {
		return nil, nil, badRequest("the body of a query must be %s: %s", querySpecForm, jsonProblem(body, err))
	}
	if spec.Query == nil {
		return nil, nil, badRequest("the body has no query; it must be %s", querySpecForm)
	}
	x.asked = maphash.Bytes(querySeed, body)
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
	for i, p := range spec.Parameters {
		if slices.ContainsFunc(spec.Parameters[:i], func(q parameter) bool { return q.Name == p.Name }) {
			return nil, nil, invalidQuery("Specified duplicate parameter name '" + p.Name + "'.")
		}
		if !isParameterName(p.Name) {
			return nil, nil, invalidQuery("Specified parameter name '" + p.Name + "' is invalid. Parameter names should be in the format of " +
				"symbol '@' followed by a valid identifier. E.g. @param1")
		}
		if p.Value != nil { // a parameter whose value is missing is undefined
			values[p.Name] = p.Value
		}
	}
	b, err := x.s.queries.Bind(*spec.Query, values)
	return b, spec.ResumeFilter, err
}

// contentTypeSQL marks a body that is the text of a query without parameters.
const contentTypeSQL = "application/sql"

const querySpecForm = `{"query": text, "parameters": [{"name": "@name", "value": value}, ...]}`

// crossPartition is the service's error message for a query that one request cannot
// answer.
const crossPartition = "The provided cross partition query can not be directly served by the gateway. " +
	"This is a first chance (internal) exception that all newer clients will know " +
	"how to handle gracefully. This exception is traced, but unless you see it bubble up as an exception " +
	"(which only happens on older SDK clients), then you can safely ignore this message."

// aggregateValue is the service's error message for a query over several partitions whose
// aggregates are members of its rows. It has no plan in the answer, but clients that ask
// for the plan get one.
const aggregateValue = `{"Errors":["Cross partition query only supports 'VALUE <AggregateFunc>' for aggregates."]}`

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
	x.charge = page.Charge
	if len(page.Served) > 0 {
		x.setPage(page.Of, page.Served)
	}
	if err != nil {
		return ownerError(err)
	}
	if err := x.checkSession(page.Served...); err != nil {
		return err
	}
	x.descending = page.Descending()
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
		if err := x.refuseUnmerged(c, b); err != nil {
			return nil, 0, err
		}
	}
	rows, err := x.pageItems()
	if err != nil {
		return nil, 0, err
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

// refuseUnmerged returns the error of a query over a whole container that one request
// cannot serve, because a client must merge the rows of its partitions. The service refuses
// it even if there is one partition.
func (x *request) refuseUnmerged(c *engine.Container, b *query.Bound) error {
	shape := b.Shape()
	switch {
	case x.s.o.ServeAllQueries || shape.NoSource:
		return nil
	case len(shape.Aggregates) > 0 && !shape.SelectValue:
		return refuse(byCompiler, http.StatusBadRequest, wire.SubNone, aggregateValue)
	case shape.Merged() || shape.Top != nil:
		return errPlanned(c, b)
	}
	return nil
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
			"queryOptimizationTimeInMs=0.00;VMExecutionTimeInMs=%.2f;indexLookupTimeInMs=0.00;instructionCount=0;documentLoadTimeInMs=0.00;systemFunctionExecuteTimeInMs=0.00;"+
			"userFunctionExecuteTimeInMs=0.00;retrievedDocumentCount=%d;retrievedDocumentSize=%d;outputDocumentCount=%d;outputDocumentSize=%d;"+
			"writeOutputTimeInMs=0.00;indexUtilizationRatio=%.2f", ms, ms, p.Documents, p.Bytes, p.Count, len(p.Rows), ratio))
	}
	if x.flag(wire.HeaderPopulateIndexMetrics) {
		h.Set(wire.HeaderIndexMetrics, base64.StdEncoding.EncodeToString([]byte(noIndexes)))
	}
}

// noIndexes is the value of the index metrics header for every query.
const noIndexes = `{"UtilizedSingleIndexes":[],"PotentialSingleIndexes":[],"UtilizedCompositeIndexes":[],"PotentialCompositeIndexes":[]}`

package server

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/query"
	"github.com/changefeed-go/changefeed/internal/querypage"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// This file serves POST docs with a plan request. A plan describes how a client queries
// the partitions and merges their rows. Java asks for the plan of every query. The other
// SDKs ask for the plans of queries that one request cannot serve.
//
// Supported: a plan for every query that has one in the service, with the text for each
// partition. These queries have ORDER BY, TOP, OFFSET LIMIT, DISTINCT, GROUP BY or
// aggregates. The continuation and the page size of the request are ignored. If the
// request has a full partition key, the plan leaves all work to the server.
//
// Refused: combinations of aggregates over several partitions; features that the client
// does not list; SELECT VALUE with GROUP BY for Java, whose SDK fails at its rows. A
// container with one partition gets the same plan, because a plan remains in use after a
// split.

func (s *Server) planQuery(x *request) error {
	c, err := x.owner()
	if err != nil {
		return err
	}
	b, _, err := x.query()
	if err != nil {
		return err
	}
	key, err := x.partitionKey()
	if err != nil {
		return err
	}
	plan, err := querypage.Plan(c, b, key)
	if err != nil {
		return err
	}
	if err := x.planFits(plan); err != nil {
		return err
	}
	x.front = true
	return x.sendJSON(http.StatusOK, plan)
}

// planFits returns an error if the client does not support a feature in the plan. Such a
// client would fail, or merge the rows incorrectly.
func (x *request) planFits(p query.Plan) error {
	known := map[string]bool{}
	for feature := range strings.SplitSeq(x.header(wire.HeaderQueryFeatures), ",") {
		known[strings.ToLower(strings.TrimSpace(feature))] = true
	}
	missing := ""
	for _, feature := range p.Features() {
		if !known[strings.ToLower(feature)] {
			missing += fmt.Sprintf("\r\nQuery contained %s, which the calling client does not support.", feature)
		}
	}
	if missing != "" {
		return badRequest("Query contains 1 or more unsupported features. "+
			"Upgrade your SDK to a version that does support the requested features:%s", missing)
	}
	if info := p.QueryInfo; info.HasSelectValue && len(info.GroupByExpressions) > 0 && strings.Contains(x.r.UserAgent(), javaAgent) {
		return unsupported("SELECT VALUE with GROUP BY over several partitions, which Java's SDK cannot merge,")
	}
	return nil
}

// javaAgent is the text by which the User-Agent of Java's SDK is recognised.
const javaAgent = "azsdk-java-cosmos"

// errPlanned returns the 400 answer to a query over a whole container that one request
// cannot serve. The answer contains the plan, by which clients query each partition.
func errPlanned(c *engine.Container, b *query.Bound) error {
	plan, err := querypage.Plan(c, b, nil)
	if err != nil {
		return err
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return fmt.Errorf("encode the plan: %w", err)
	}
	return &statusError{status: http.StatusBadRequest, substatus: wire.SubCrossPartitionQuery, message: crossPartition, info: string(text)}
}

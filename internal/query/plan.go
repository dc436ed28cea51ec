package query

import (
	"slices"
	"strings"
)

// Keys describes the container's partition key for [Bound.Plan].
type Keys struct {
	// Paths are the partition key paths, each as a list of names: ["a","b"] for /a/b.
	Paths [][]string
	// EPK returns the effective partition key of a full key, in upper-case hexadecimal.
	// The key has one element per path: nil (null), bool, float64 or string. EPK returns
	// "" if no document can have the key.
	EPK func(key []any) (string, error)
	// Point is the effective partition key of the full key in the request's header. It is
	// empty if the request names none.
	Point string
}

// Range is an interval of effective partition keys, in the format of a plan.
type Range struct {
	Min            string `json:"min"`
	Max            string `json:"max"`
	IsMinInclusive bool   `json:"isMinInclusive"`
	IsMaxInclusive bool   `json:"isMaxInclusive"`
}

// Info is the queryInfo of a plan.
type Info struct {
	DistinctType                string             `json:"distinctType"`
	Top                         *int64             `json:"top"`
	Offset                      *int64             `json:"offset"`
	Limit                       *int64             `json:"limit"`
	OrderBy                     []string           `json:"orderBy"`
	OrderByExpressions          []string           `json:"orderByExpressions"`
	GroupByExpressions          []string           `json:"groupByExpressions"`
	GroupByAliases              []string           `json:"groupByAliases"`
	Aggregates                  []string           `json:"aggregates"`
	GroupByAliasToAggregateType map[string]*string `json:"groupByAliasToAggregateType"`
	RewrittenQuery              string             `json:"rewrittenQuery"`
	HasSelectValue              bool               `json:"hasSelectValue"`
	DCountInfo                  *DCount            `json:"dCountInfo"`
	HasNonStreamingOrderBy      bool               `json:"hasNonStreamingOrderBy"`
}

// DCount is the dCountInfo of a plan: a COUNT of DISTINCT.
type DCount struct {
	Alias string `json:"dCountAlias"`
}

// Plan is the answer to a plan request. Its JSON has every field, in the order of the
// service, because SDKs fail on a missing one.
type Plan struct {
	Version     int     `json:"partitionedQueryExecutionInfoVersion"`
	QueryInfo   Info    `json:"queryInfo"`
	QueryRanges []Range `json:"queryRanges"`
	// HybridSearch is null: full-text and vector search are not supported.
	HybridSearch *struct{} `json:"hybridSearchQueryInfo"`
}

// planVersion is the version that the service writes. No SDK reads it.
const planVersion = 2

// distinctNone is the distinctType of a query without DISTINCT.
const distinctNone = "None"

// Plan returns the plan of the query. A plan contains the ranges, the text that the
// client sends to each of them, and the steps by which the client merges their rows. It
// returns a *[PlanError] if the query cannot run over several ranges, or the error of
// k.EPK.
//
// If a full partition key makes the range a point, no split can divide it. Then the
// server does all the work. The client sends the text unchanged to the range of that
// point and passes the rows on.
func (b *Bound) Plan(k Keys) (Plan, error) {
	ranges, point, err := b.ranges(k)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{
		Version: planVersion,
		QueryInfo: Info{
			DistinctType:                distinctNone,
			Top:                         b.shape.Top,
			OrderBy:                     []string{},
			OrderByExpressions:          []string{},
			GroupByExpressions:          []string{},
			GroupByAliases:              []string{},
			Aggregates:                  []string{},
			GroupByAliasToAggregateType: map[string]*string{},
			HasSelectValue:              b.shape.SelectValue,
		},
		QueryRanges: ranges,
	}
	if !point {
		err = b.rewrite(&p.QueryInfo)
	}
	return p, err
}

// ranges returns the ranges that the query must read, sorted and disjoint. If the
// condition requires partition keys, there is a point for each, otherwise the full range.
// If no document can satisfy the condition, ranges returns the empty interval. point
// reports whether the result is a single point.
//
// A point is sufficient because it contains every document with that partition key, and
// the condition excludes all other documents. No split can divide a point.
func (b *Bound) ranges(k Keys) (ranges []Range, point bool, err error) {
	if k.Point != "" {
		return []Range{pointRange(k.Point)}, true, nil
	}
	if b.shape.NoSource {
		return []Range{pointRange("")}, true, nil // any single range will do
	}
	keys, ok := b.Keys(k.Paths)
	if !ok || k.EPK == nil {
		return []Range{{Min: "", Max: "FF", IsMinInclusive: true}}, false, nil
	}
	for _, key := range keys {
		epk, err := k.EPK(key)
		if err != nil {
			return nil, false, err
		}
		if epk != "" {
			ranges = append(ranges, pointRange(epk))
		}
	}
	slices.SortFunc(ranges, func(a, b Range) int { return strings.Compare(a.Min, b.Min) })
	ranges = slices.Compact(ranges)
	if len(ranges) == 0 {
		return []Range{pointRange("")}, false, nil
	}
	return ranges, len(ranges) == 1, nil
}

func pointRange(epk string) Range {
	return Range{Min: epk, Max: epk, IsMinInclusive: true, IsMaxInclusive: true}
}

// Features returns the features that a client needs to merge the rows of the ranges. The
// header x-ms-cosmos-supported-query-features contains the same names.
func (p Plan) Features() []string {
	var needs []string
	need := func(is bool, feature string) {
		if is {
			needs = append(needs, feature)
		}
	}
	info := p.QueryInfo
	typed := 0
	for _, kind := range info.GroupByAliasToAggregateType {
		if kind != nil {
			typed++
		}
	}
	need(len(info.Aggregates) > 0, "Aggregate")
	need(typed > 0, "NonValueAggregate")
	need(typed > 1, "MultipleAggregates")
	need(info.DistinctType != distinctNone, "Distinct")
	need(len(info.GroupByExpressions) > 0, "GroupBy")
	need(info.Top != nil, "Top")
	need(info.Limit != nil, "OffsetAndLimit")
	need(len(info.OrderBy) == 1, "OrderBy")
	need(len(info.OrderBy) > 1, "MultipleOrderBy")
	need(info.DCountInfo != nil, "DCount")
	return needs
}

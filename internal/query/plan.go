package query

import (
	"slices"
	"strings"
)

// Keys tells [Bound.Plan] about the container's partition key.
type Keys struct {
	// Paths are the partition key paths, each as its names: ["a","b"] for /a/b.
	Paths [][]string
	// EPK returns the effective partition key, upper-case hexadecimal, of a full
	// key: an element of nil (null), bool, float64 or string for each path; empty
	// when no document can have it.
	EPK func(key []any) (string, error)
	// Point is the effective partition key of the full key that the request
	// itself names by its header; empty when it names none.
	Point string
}

// Range is an interval of effective partition keys, as a plan has it.
type Range struct {
	Min            string `json:"min"`
	Max            string `json:"max"`
	IsMinInclusive bool   `json:"isMinInclusive"`
	IsMaxInclusive bool   `json:"isMaxInclusive"`
}

// Info is a plan's queryInfo.
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

// DCount is a plan's dCountInfo: a COUNT of DISTINCT.
type DCount struct {
	Alias string `json:"dCountAlias"`
}

// Plan is the answer to a plan request. Its JSON has every field, in the order
// of the service: SDKs fail on a missing one.
type Plan struct {
	Version     int     `json:"partitionedQueryExecutionInfoVersion"`
	QueryInfo   Info    `json:"queryInfo"`
	QueryRanges []Range `json:"queryRanges"`
}

// planVersion is what the service writes today; no SDK looks at it.
const planVersion = 2

// distinctNone is the distinctType of a query without DISTINCT.
const distinctNone = "None"

// Plan returns the query's plan: which ranges to ask, with which text, and what
// the client does with their rows. The error is a *[PlanError] for what can't be
// done over several ranges, or one of k.EPK.
//
// Where a full partition key makes the range a point, which no split can divide,
// the plan leaves everything to the server: the client sends the text as it is to
// the range that has the point, and passes its rows on.
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

// ranges returns where the query has to be asked, sorted and apart: a point for
// each partition key that the condition asks for, the empty interval when it asks
// for none that a document can have. A point is right because the documents of a
// partition key are those whose values it is made of, and the condition asks for
// just these values; no split can divide it. point tells that there is but one.
func (b *Bound) ranges(k Keys) (ranges []Range, point bool, err error) {
	if k.Point != "" {
		return []Range{pointRange(k.Point)}, true, nil
	}
	if b.shape.NoSource {
		return []Range{pointRange("")}, true, nil // one range is asked, whichever
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

// Features are what a client has to know to make the query's rows of those of the
// ranges, as it names what it knows in the header
// x-ms-cosmos-supported-query-features.
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

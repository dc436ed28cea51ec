package query

// Keys tells [Bound.Plan] about the container's partition key.
type Keys struct {
	// Paths are the partition key paths, each as its names: ["a","b"] for /a/b.
	Paths [][]string
	// EPK returns the effective partition key, upper-case hexadecimal, of a full
	// key: an element of nil (null), bool, float64 or string for each path.
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

// Plan returns the query's plan: which ranges to ask, and what the client does
// with their rows. A query that needs one range ([Shape.NeedsOneRange]) has a
// plan only when a full partition key makes its range a point, which no split
// can divide; otherwise the error is a *[CrossPartitionError].
func (b *Bound) Plan(k Keys) (Plan, error) {
	return Plan{}, &UnsupportedError{What: "a query plan"}
}

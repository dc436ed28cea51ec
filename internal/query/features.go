package query

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

package query

import "encoding/json"

type (
	selectQuery struct{}
	program     struct{}
	value       struct{}
)

func parse(string) (*selectQuery, error)          { return nil, &UnsupportedError{What: "any query"} }
func parseCondition(string) (*selectQuery, error) { return nil, &UnsupportedError{What: "any query"} }
func check(*selectQuery) error                    { return nil }
func printQuery(*selectQuery) string              { return "" }

func bind(*selectQuery, map[string]json.RawMessage) (*Bound, error) {
	return nil, &UnsupportedError{What: "any query"}
}

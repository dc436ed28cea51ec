package query

import (
	"cmp"
	"math"
	"reflect"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
)

// The functions in this file evaluate the built-in functions for the slow evaluator, as
// the documentation describes them. They work on decoded values, and on strings as lists
// of characters.

func (s slow) call(e *syntax.Call) any {
	name := strings.ToUpper(e.Name)
	if s.grouped && slices.Contains([]string{"COUNT", "SUM", "AVG", "MIN", "MAX"}, name) {
		return s.aggregate(name, e.Args[0])
	}
	args := make([]any, len(e.Args))
	for i, a := range e.Args {
		args[i] = s.eval(a)
	}
	for _, functions := range []func(string, []any) (any, bool){slowTypes, slowStrings, slowPlaces, slowNumbers, slowArrays} {
		if v, ok := functions(name, args); ok {
			return v
		}
	}
	panic("no slow " + name)
}

func slowTypes(name string, args []any) (any, bool) {
	rank := slowRank(args[0])
	switch name {
	case "IS_DEFINED":
		return rank > 0, true
	case "IS_NULL":
		return rank == 1, true
	case "IS_BOOL", "IS_BOOLEAN":
		return rank == 2 || rank == 3, true
	case "IS_NUMBER", "IS_FINITE_NUMBER":
		return rank == 4, true
	case "IS_INTEGER":
		return rank == 4 && args[0] == math.Floor(args[0].(float64)), true
	case "IS_STRING":
		return rank == 5, true
	case "IS_ARRAY":
		return rank == 6, true
	case "IS_OBJECT":
		return rank == 7, true
	case "IS_PRIMITIVE":
		return rank >= 1 && rank <= 5, true
	case "IIF":
		if args[0] == any(true) {
			return args[1], true
		}
		return args[2], true
	}
	return nil, false
}

// slowStrings evaluates the functions whose arguments are all strings.
func slowStrings(name string, args []any) (any, bool) {
	of := map[string]func(s []string) any{
		"CONCAT": func(s []string) any { return strings.Join(s, "") },
		"LENGTH": func(s []string) any { return float64(len([]rune(s[0]))) },
		"REVERSE": func(s []string) any {
			runes := []rune(s[0])
			slices.Reverse(runes)
			return string(runes)
		},
		"UPPER":   func(s []string) any { return strings.ToUpper(s[0]) },
		"LOWER":   func(s []string) any { return strings.ToLower(s[0]) },
		"TRIM":    func(s []string) any { return strings.TrimSpace(s[0]) },
		"REPLACE": func(s []string) any { return strings.ReplaceAll(s[0], s[1], s[2]) },
	}[name]
	if of == nil {
		return nil, false
	}
	var list []string
	for _, a := range args {
		text, ok := a.(string)
		if !ok {
			return none{}, true
		}
		list = append(list, text)
	}
	return of(list), true
}

// slowPlaces evaluates the functions with strings and numbers or booleans as arguments.
func slowPlaces(name string, args []any) (any, bool) {
	switch name {
	case "STARTSWITH", "ENDSWITH", "CONTAINS", "STRINGEQUALS":
		return slowCompare(name, args), true
	case "LEFT", "RIGHT", "SUBSTRING", "INDEX_OF":
	default:
		return nil, false
	}
	text, ok := args[0].(string)
	if !ok {
		return none{}, true
	}
	runes := []rune(text)
	if name == "INDEX_OF" {
		part, ok := args[1].(string)
		if !ok {
			return none{}, true
		}
		for i := range len(runes) + 1 {
			if strings.HasPrefix(string(runes[i:]), part) {
				return float64(i), true
			}
		}
		return -1.0, true
	}
	var n []int
	for _, a := range args[1:] {
		f, ok := a.(float64)
		if !ok || f != math.Floor(f) {
			return none{}, true
		}
		n = append(n, int(max(-1e6, min(f, 1e6))))
	}
	size := len(runes)
	switch name {
	case "LEFT":
		return string(runes[:max(0, min(n[0], size))]), true
	case "RIGHT":
		return string(runes[size-max(0, min(n[0], size)):]), true
	}
	if n[0] < 0 {
		return "", true // as the service answers
	}
	from := min(n[0], size)
	return string(runes[from:max(from, min(from+n[1], size))]), true
}

func slowCompare(name string, args []any) any {
	a, ok1 := args[0].(string)
	b, ok2 := args[1].(string)
	if !ok1 || !ok2 {
		return none{}
	}
	if len(args) == 3 {
		ignore, ok := args[2].(bool)
		if !ok {
			return none{}
		}
		if ignore {
			a, b = strings.ToUpper(a), strings.ToUpper(b)
		}
	}
	return map[string]func(string, string) bool{
		"STARTSWITH": strings.HasPrefix, "ENDSWITH": strings.HasSuffix, "CONTAINS": strings.Contains, "STRINGEQUALS": func(a, b string) bool { return a == b },
	}[name](a, b)
}

func slowNumbers(name string, args []any) (any, bool) {
	of := map[string]func(x float64) float64{
		"ABS": math.Abs, "FLOOR": math.Floor, "CEILING": math.Ceil, "TRUNC": math.Trunc, "SQRT": math.Sqrt, "SQUARE": func(x float64) float64 { return x * x },
		"SIGN": func(x float64) float64 { return float64(cmp.Compare(x, 0)) },
	}[name]
	if of == nil {
		return nil, false
	}
	x, ok := args[0].(float64)
	if !ok {
		return none{}, true
	}
	if v := of(x); !math.IsNaN(v) && !math.IsInf(v, 0) {
		return v, true
	}
	return none{}, true
}

func slowArrays(name string, args []any) (any, bool) {
	if name == "ARRAY_CONTAINS" {
		return slowArrayContains(args), true
	}
	list, isArray := args[0].([]any)
	if !isArray && strings.HasPrefix(name, "ARRAY_") {
		return none{}, true
	}
	switch name {
	case "ARRAY_LENGTH":
		return float64(len(list)), true
	case "ARRAY_CONCAT":
		all := []any{}
		for _, a := range args {
			more, ok := a.([]any)
			if !ok {
				return none{}, true
			}
			all = append(all, more...)
		}
		return all, true
	case "ARRAY_SLICE":
		from, ok := args[1].(float64)
		if !ok || from != math.Floor(from) {
			return none{}, true
		}
		if from < 0 {
			from = max(0, from+float64(len(list)))
		}
		return append([]any{}, list[int(min(from, float64(len(list)))):]...), true
	}
	return nil, false
}

func slowArrayContains(args []any) any {
	list, ok := args[0].([]any)
	partial := false
	if len(args) == 3 && !isUndefined(args[2]) {
		b, isBool := args[2].(bool)
		partial, ok = b, ok && isBool
	}
	if !ok || isUndefined(args[1]) {
		return none{}
	}
	return slices.ContainsFunc(list, func(v any) bool {
		have, ok1 := v.(map[string]any)
		want, ok2 := args[1].(map[string]any)
		if !partial || !ok1 || !ok2 {
			return reflect.DeepEqual(v, args[1])
		}
		for name, x := range want {
			if y, ok := have[name]; !ok || !reflect.DeepEqual(x, y) {
				return false
			}
		}
		return true
	})
}

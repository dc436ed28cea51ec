package query

import (
	"strconv"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// DocumentSet is a set of documents, described by their partition key and ids.
type DocumentSet struct {
	// Key is the value at each key path: nil (null), bool, float64 or string. A nil Key
	// means any key.
	Key []any
	// From and To limit the ids: From <= id < To, in the order of their UTF-8. An empty
	// To is no limit.
	From, To string
}

// Among returns sets that contain every document that satisfies the condition. paths are
// the partition key paths, each as a list of names: ["a","b"] for /a/b. Sets may overlap.
// If sets is empty and ok is true, no document satisfies the condition. If ok is false,
// the condition does not restrict keys or ids, and the caller must read every document.
//
// exact reports whether every document in the sets satisfies the condition. Otherwise the
// caller must evaluate it for each.
func (b *Bound) Among(paths [][]string) (sets []DocumentSet, exact, ok bool) {
	r := b.keySet(paths)
	if r.all {
		return nil, r.exact, false
	}
	exact = r.exact
	sets = []DocumentSet{}
	for _, x := range r.ranges {
		s := DocumentSet{Key: x.fullKey(), From: x.from, To: x.to}
		exact = exact && (s.Key != nil || len(x.key) == 0)
		if s.Key == nil && s.From == "" && s.To == "" {
			return nil, false, false
		}
		sets = append(sets, s)
	}
	return sets, exact, true
}

// Keys returns the distinct partition keys that the condition requires. No document with
// another key satisfies it. ok is false unless the condition binds every path. If keys is
// empty and ok is true, no document satisfies the condition.
func (b *Bound) Keys(paths [][]string) (keys [][]any, ok bool) {
	if len(paths) == 0 {
		return nil, false
	}
	r := b.keySet(paths)
	if r.all {
		return nil, false
	}
	seen := map[string]bool{}
	for _, x := range r.ranges {
		key := x.fullKey()
		if key == nil {
			return nil, false
		}
		if text := keyText(key); !seen[text] {
			seen[text] = true
			keys = append(keys, key)
		}
	}
	return keys, true
}

// KeyFilter returns the partition key that the condition requires. ok is false if the
// condition does not require exactly one.
func (b *Bound) KeyFilter(paths [][]string) (key []any, ok bool) {
	if keys, _ := b.Keys(paths); len(keys) == 1 {
		return keys[0], true
	}
	return nil, false
}

// keyText returns a text that is the same for equal keys and different for others.
func keyText(key []any) string {
	var b []byte
	for _, v := range key {
		switch v := v.(type) {
		case nil:
			b = append(b, 'n')
		case bool:
			b = strconv.AppendBool(b, v)
		case float64:
			b = strconv.AppendFloat(b, v+0, 'g', -1, 64) // -0 is 0
		case string:
			b = strconv.AppendQuote(b, v)
		}
		b = append(b, ' ')
	}
	return string(b)
}

// idsIn returns the ids that a document must have to satisfy e: one of the list. ok is
// false if documents with any other id may satisfy e, too. The document may be from any
// source, so its id may have any type.
func idsIn(e syntax.Expr, params map[string]value.Value) (ids []string, ok bool) {
	r := keyAnalysis{params: params, loose: true}.of(e)
	if r.all {
		return nil, false
	}
	for _, x := range r.ranges {
		if x.from+"\x00" != x.to {
			return nil, false
		}
		ids = append(ids, x.from)
	}
	return ids, true
}

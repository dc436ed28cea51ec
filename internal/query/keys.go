package query

import (
	"strconv"

	"github.com/changefeed-go/changefeed/internal/query/syntax"
	"github.com/changefeed-go/changefeed/internal/query/value"
)

// DocumentSet is a set of documents, told by their partition key and id.
type DocumentSet struct {
	// Key is the value at each key path: nil (null), bool, float64 or string. A nil
	// Key stands for any.
	Key []any
	// From and To bound the ids, From <= id < To, in the order of their UTF-8. An
	// empty To is no bound.
	From, To string
}

// Among returns sets of documents outside of which the condition isn't true, by
// the partition key paths (each as its names, ["a","b"] for /a/b). Sets may
// overlap; without any the condition is true of none. ok is false when the
// condition says nothing of keys or ids, and every document has to be looked at.
//
// exact tells that the condition is true of all documents in the sets. Otherwise
// it is to be evaluated for each.
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

// Keys returns the partition keys that the condition asks for, each once: it
// isn't true of documents of any other. ok is false unless it binds every path.
// Without keys the condition is true of no document.
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

// KeyFilter returns the one partition key that the condition asks for; ok is
// false when it asks for several or for none.
func (b *Bound) KeyFilter(paths [][]string) (key []any, ok bool) {
	if keys, _ := b.Keys(paths); len(keys) == 1 {
		return keys[0], true
	}
	return nil, false
}

// keyText is a text that two keys share only if they are the same.
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

// idsIn returns the ids one of which a document, of whatever origin, has to have
// for e to be true; ok is false when others may do.
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

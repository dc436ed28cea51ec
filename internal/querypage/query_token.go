package querypage

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"hash/crc32"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/query"
)

// The continuation of a query has the service's form, because tools parse and store it:
//
//	{"token":"-RID:~<rid>#RT:1#TRC:1000#ISV:2#IEO:<number>#QCF:8","range":{"min":"","max":"FF"}}
//
// From the second page on it is a list with one such object. rid is that of the last row's
// document. RT counts the pages that were read, and TRC their rows. range holds the keys
// that the position divides.
//
// For a query in the order of the documents, rid and range are the whole position. If a
// partition was read to its end, range has what is left, and rid ends with document number 0.
// Any other position is in another part, RTD, which the service has for sorted queries.
//
// A continuation is good for its query, with the same values of parameters, and for the scope of
// its request or a part of range: after a split, SDKs send the continuation of a range for each of
// its parts. But a partition key is no part of a range, and the other way round. Without that
// bond, a client that sends it with another partition, key or order would miss rows and not
// notice. The number after IEO, which no SDK reads, holds two checksums: one of all this, and one
// of the scope if that is not range. They prevent mistakes, but not forgery.

// binding is what a continuation is good for.
type binding struct {
	container *engine.Container
	query     *query.Bound // nil for all documents of the selection
	scope     feed.Range
	byKey     bool // the scope is one full key
	key       int  // the number of components of the request's key
	ordered   bool
	// gone reports whether the partition of the request is not live. The read returns the
	// error of that, which tells the client to continue with the new partitions.
	gone bool
}

// progress counts the pages and rows that a query has returned.
type progress struct{ pages, rows int64 }

type queryToken struct {
	Token string     `json:"token"`
	Range tokenRange `json:"range"`
}

type tokenRange struct {
	Min string `json:"min"`
	Max string `json:"max"`
}

// bindingOf returns what the continuations of a request for a selection of documents are good
// for. q is the query, or nil for all documents of the selection.
func bindingOf(ctx context.Context, c *engine.Container, r *engine.ItemsRequest, q *query.Bound, ordered bool) binding {
	b := binding{container: c, query: q, scope: r.Range.OrFull(), ordered: ordered, key: len(r.Key)}
	if b.key > 0 {
		if keys, err := c.KeyRange(r.Key); err == nil {
			b.scope, b.byKey = b.scope.Intersect(keys), b.key == len(c.KeyPaths())
		}
	}
	if r.Partition != "" {
		all, err := c.Partitions(ctx) // the read returns the error, too
		i := slices.IndexFunc(all, func(p feed.Partition) bool { return p.ID == r.Partition })
		if b.gone = err != nil || i < 0; !b.gone {
			b.scope = b.scope.Intersect(all[i].Range)
		}
	}
	return b
}

// token returns the continuation of a position.
func (b *binding) token(p position, n progress) (string, error) {
	keys, number, rest := b.scope, uint32(0), ""
	simple := p
	simple.after = ""
	at, ok := engine.ParseItemsPosition(p.after)
	if ok {
		number = at.Number
	}
	switch {
	case ok && number == 0:
		keys.Min = at.Keys.Min
	case ok && at.Keys.Max == "":
		ok = b.byKey && at.Keys.Min == b.scope.Min
	case ok:
		keys = at.Keys
	}
	if !b.scope.Contains(keys) {
		keys, ok = b.scope, false
	}
	if text, err := p.text(); err != nil {
		return "", err
	} else if !ok || simple != (position{limit: -1}) {
		rest = text
	}
	if p.last != nil {
		number = uint32(p.last.Tie) //nolint:gosec // a document number, or the number of a group
	}
	parts := []string{"-RID:~" + b.container.DocumentRID(number), "RT:" + strconv.FormatInt(n.pages, 10), "TRC:" + strconv.FormatInt(n.rows, 10)}
	if rest != "" {
		parts = append(parts, "RTD:"+base64.RawURLEncoding.EncodeToString([]byte(rest)))
	}
	head := strings.Join(parts, "#") + "#ISV:2#IEO:"
	sum := b.checksum(head, keys, b.digest(keys))
	t := queryToken{Token: head + strconv.FormatUint(sum, 10) + "#QCF:8", Range: tokenRange{keys.Min, keys.Max}}
	var v any = t
	if n.pages > 1 {
		v = []queryToken{t}
	}
	text, err := json.Marshal(v)
	return string(text), err
}

// digest returns the checksum of the scope, which is never 0, or 0 if the scope is keys.
func (b *binding) digest(keys feed.Range) uint32 {
	if keys == b.scope {
		return 0
	}
	return max(1, crc32.Checksum([]byte(b.scope.Min+"-"+b.scope.Max), castagnoli))
}

// checksum returns the number after IEO of a continuation whose text begins with head and whose
// scope has a digest.
func (b *binding) checksum(head string, keys feed.Range, scope uint32) uint64 {
	identity := ""
	if b.query != nil {
		identity = string(b.query.Identity())
	}
	sum := crc32.New(castagnoli)
	of := []string{
		b.container.Identity().ContainerRID, strconv.FormatBool(b.ordered), strconv.Itoa(b.key), identity, head,
		keys.Min, keys.Max, strconv.FormatUint(uint64(scope), 10),
	}
	for _, s := range of {
		_, _ = sum.Write(append([]byte(s), 0)) // never fails
	}
	return uint64(scope)<<32 | uint64(sum.Sum32())
}

var tokenForm = regexp.MustCompile(`^(-RID:~([^#]+)#RT:(\d{1,18})#TRC:(\d{1,18})(?:#RTD:([^#]*))?#ISV:2#IEO:)(\d{1,20})#QCF:8$`)

// ErrToken is an *[Error] with the service's answer to a continuation that does not belong to
// the request.
var ErrToken = badRequest("Invalid Continuation Token")

// parse returns the position in a continuation. It returns an *[Error] unless the
// continuation belongs to the query and to the scope of the request.
func (b *binding) parse(text string) (p position, n progress, err error) {
	var t queryToken
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		var list []queryToken
		if err := json.Unmarshal([]byte(text), &list); err != nil || len(list) != 1 {
			return p, n, ErrToken
		}
		t = list[0]
	}
	m := tokenForm.FindStringSubmatch(t.Token)
	keys := feed.Range{Min: t.Range.Min, Max: t.Range.Max}
	if m == nil || !parseCount(m[3], &n.pages) || !parseCount(m[4], &n.rows) {
		return p, n, ErrToken
	}
	sum, err := strconv.ParseUint(m[6], 10, 64)
	scope := uint32(sum >> 32)
	if err != nil || sum != b.checksum(m[1], keys, scope) || !keys.Contains(b.scope) && (scope == 0 || scope != b.digest(keys)) {
		return p, n, ErrToken
	}
	if m[5] == "" {
		number, ok := numberOf(m[2], b.container.Identity().ContainerRID)
		at := engine.ItemsPosition{Keys: keys, Number: uint32(number)} //nolint:gosec // numberOf returns 32 bits
		if number == 0 || b.byKey && keys == b.scope {
			at.Keys.Max = ""
		}
		p = position{limit: -1, after: at.Continuation()}
		if !ok || p.after == "" {
			return p, n, ErrToken
		}
		return p, n, nil
	}
	rest, err := base64.RawURLEncoding.Strict().DecodeString(m[5])
	p, ok := parsePosition(string(rest), b.ordered)
	if err != nil || !ok {
		return p, n, ErrToken
	}
	return p, n, nil
}

// ReadFeed translates the continuations of documents that are read without a query. They have
// the form of a query's, and are bound to their scope in the same way.
type ReadFeed struct {
	binding  binding
	progress progress
}

// NewReadFeed returns the read feed of the documents that r selects. It sets the Continuation
// of r to the position in text, which is that of the previous page, or empty. It returns an
// *[Error] unless the text belongs to the selection.
func NewReadFeed(ctx context.Context, c *engine.Container, r *engine.ItemsRequest, text string) (*ReadFeed, error) {
	f := &ReadFeed{binding: bindingOf(ctx, c, r, nil, false)}
	if text == "" || f.binding.gone {
		return f, nil
	}
	p, n, err := f.binding.parse(text)
	r.Continuation, f.progress = p.after, n
	return f, err
}

// Next returns the continuation of the page after page. It is empty if page is the last.
func (f *ReadFeed) Next(page *engine.ItemsPage) (string, error) {
	if page.Continuation == "" {
		return "", nil
	}
	n := progress{f.progress.pages + 1, f.progress.rows + int64(len(page.Items))}
	return f.binding.token(position{limit: -1, after: page.Continuation}, n)
}

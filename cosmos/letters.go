package cosmos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/rest"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/letters"
)

// LetterOptions configures a letters container. The zero value is good for most programs.
type LetterOptions struct {
	// Create makes [Letters.Open] create a missing container, partitioned by
	// [letters.KeyPath], without time to live, and with an index of what letters are found
	// by. With Entra ID this requires a right that the built-in data roles lack. If false, a
	// missing container is an error.
	Create bool
	// Throughput is the provisioned throughput for a created container, in RU/s. If zero, it
	// shares the database's, or gets the service's minimum.
	Throughput int32
}

// Letters is a letters container in an account, perhaps another one than the monitored
// container's. It implements [letters.Container], and its methods are safe for concurrent use.
//
// The container must be partitioned by [letters.KeyPath] and must not let items expire by
// default. The account's consistency level must be session or stronger, because a host that
// takes a lease must see every letter that the one before it has written.
//
// All reads and writes go to the account's write region, and Options.PreferredRegions and
// Options.Consistency are ignored. Letters does not retry a write that the service throttles or
// refuses, but the processor does.
type Letters struct {
	address
	options LetterOptions
}

// Letters returns the letters container with that name, which is first requested when it is
// opened.
func (a *Account) Letters(database, container string, o LetterOptions) *Letters {
	return &Letters{address{a, database, container}, o}
}

// letterLimit is the size in bytes up to which the service takes a document: 2 MB, of which its
// own properties need some.
const letterLimit = 2<<20 - 8<<10

// letterIndexing is the indexing policy of a created container. Only what queries and people look
// for is indexed; above all, the items in the letters are not.
var letterIndexing = json.RawMessage(`{"indexingMode":"consistent","automatic":true,"includedPaths":[` +
	`{"path":"/type/?"},{"path":"/processor/?"},{"path":"/account/?"},{"path":"/source/?"},{"path":"/hash/?"},{"path":"/letter/?"},` +
	`{"path":"/state/?"},{"path":"/sequence/?"},{"path":"/item/?"},{"path":"/first/?"},{"path":"/last/?"},{"path":"/error/?"}],` +
	`"excludedPaths":[{"path":"/*"},{"path":"/\"_etag\"/?"}]}`)

// Open implements [letters.Container].
func (l *Letters) Open(ctx context.Context, k letters.Key) (letters.Store, error) {
	p, err := l.ensure(ctx, wantedContainer{
		noun: "letter", create: l.options.Create, throughput: l.options.Throughput,
		properties: containerProperties{PartitionKey: partitionKey{Paths: []string{letters.KeyPath}, Kind: "Hash", Version: 2}, Indexing: letterIndexing},
		remedy:     "create it, partitioned by " + letters.KeyPath + ", or set LetterOptions.Create",
	})
	if err != nil {
		return nil, err
	}
	if err := letters.CheckContainer(l.container, p.PartitionKey.Paths, p.defaultTTL()); err != nil {
		return nil, err
	}
	if known, _ := l.account.client.regions.current(); known != nil {
		if level := ConsistencyLevel(known.Consistency.Default); level == ConsistentPrefix || level == Eventual {
			return nil, &letters.ContainerError{
				Found:  fmt.Sprintf("the account %s, which has the container %s, has the consistency level %s, with which a read may miss letters", l.account.host, l.container, level),
				Remedy: "use an account with session consistency or a stronger one for the letters",
			}
		}
	}
	d := &letterDocuments{Letters: l, rid: p.RID, documentClient: newDocumentClient(&l.address, "letter"), sessions: map[string]string{}}
	return letters.NewStore(k, d, letterLimit), nil
}

// letterDocuments implements [letters.Documents].
type letterDocuments struct {
	*Letters
	documentClient
	// rid is the rid of the letters container.
	rid string
	// sessions are the session tokens of all responses, by partition; mu guards them.
	sessions map[string]string
}

// ContainerID implements [feed.Identifier].
func (d *letterDocuments) ContainerID(ctx context.Context) (feed.ContainerID, error) {
	account, err := d.account.client.accountName(ctx)
	return feed.ContainerID{Account: account, RID: d.rid}, err
}

// Session implements [letters.Documents]. The result has a token for each partition, in the
// order of their ids.
func (d *letterDocuments) Session(token string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	mergeSession(d.sessions, token)
	tokens := make([]string, 0, len(d.sessions))
	for _, id := range slices.Sorted(maps.Keys(d.sessions)) {
		tokens = append(tokens, id+":"+d.sessions[id])
	}
	return strings.Join(tokens, ",")
}

// sendInSession sends a call with the session token, and remembers the one of the response.
func (d *letterDocuments) sendInSession(ctx context.Context, q *call) (*answer, error) {
	if token := d.Session(""); token != "" {
		q.header.Set(wire.HeaderSessionToken, token)
	}
	a, err := d.send(ctx, q)
	if err == nil {
		d.Session(a.header.Get(wire.HeaderSessionToken))
	}
	return a, err
}

// document returns a call on a document. A create and an upsert have no id.
func (d *letterDocuments) document(span, op, method, pk, id string) *call {
	q := &call{span: "Letters." + span, op: op, method: method, path: d.path() + "/docs", kind: kindLetterWrite, header: http.Header{}}
	if id != "" {
		q.path += "/" + url.PathEscape(id)
	}
	q.header.Set(wire.HeaderPartitionKey, wire.ASCII(feed.PartitionKey{pk}.String()))
	return q
}

// Read implements [letters.Documents].
func (d *letterDocuments) Read(ctx context.Context, pk, id string) ([]byte, error) {
	q := d.document("Read", "read document "+id, http.MethodGet, pk, id)
	q.kind = kindLetterRead
	a, err := d.sendInSession(ctx, q)
	if err == nil {
		err = d.missed(ctx, q, actionRead, a)
	}
	if err != nil {
		return nil, err
	}
	return a.body, nil
}

// Write implements [letters.Documents].
func (d *letterDocuments) Write(ctx context.Context, w letters.Write) (etag string, err error) {
	var q *call
	action := actionCreate
	switch w.Method {
	case letters.Create:
		q = d.document("Create", "create document "+w.ID, http.MethodPost, w.PK, "")
	case letters.Upsert:
		q = d.document("Upsert", "upsert document "+w.ID, http.MethodPost, w.PK, "")
		q.header.Set(wire.HeaderUpsert, "True")
	case letters.Replace:
		q, action = d.document("Replace", "replace document "+w.ID, http.MethodPut, w.PK, w.ID), actionReplace
	case letters.Delete:
		q, action = d.document("Delete", "delete document "+w.ID, http.MethodDelete, w.PK, w.ID), actionDelete
	}
	q.body = w.Document
	q.header.Set("Prefer", "return=minimal")
	if w.ETag != "" {
		q.header.Set("If-Match", w.ETag)
	}
	a, err := d.sendInSession(ctx, q)
	switch {
	case err != nil:
		return "", err
	case a.status == http.StatusConflict && w.Method == letters.Create:
		return "", letters.ErrExists
	case a.status == http.StatusPreconditionFailed && q.again(): // perhaps by an earlier attempt of this call
		return "", fmt.Errorf("%s: %w; the outcome is unknown", q.op, errChangedInDoubt)
	case a.status == http.StatusPreconditionFailed:
		return "", letters.ErrChanged
	case w.Method == letters.Create || w.Method == letters.Upsert:
		if a.failure != nil {
			err = d.failure(q, action, a)
		}
	default:
		err = d.missed(ctx, q, action, a)
	}
	if err != nil {
		return "", err
	}
	return a.header.Get("Etag"), nil
}

var errChangedInDoubt = errors.New("the write was sent several times, and the last attempt found another document")

// Find implements [letters.Documents]. Within one logical partition, the query goes to that
// alone.
func (d *letterDocuments) Find(ctx context.Context, s letters.Selection) iter.Seq2[json.RawMessage, error] {
	text, parameters := letterQuery(s)
	const op = "find letters"
	send := func(ctx context.Context, r rest.Request) (rest.Response, error) {
		if s.PK != "" {
			r.Header.Del(wire.HeaderCrossPartition)
			r.Header.Set(wire.HeaderPartitionKey, wire.ASCII(feed.PartitionKey{s.PK}.String()))
		}
		q := &call{span: "Letters.Query", op: r.Operation, method: r.Method, path: r.Path, kind: kindLetterList, body: r.Body, header: r.Header}
		a, err := d.sendInSession(ctx, q)
		if err == nil && a.failure != nil {
			err = d.failure(q, actionQuery, a)
		}
		if err != nil {
			return rest.Response{}, err
		}
		return rest.Response{Header: a.header, Body: a.body}, nil
	}
	return func(yield func(json.RawMessage, error) bool) {
		q := rest.Query{Operation: op, Path: d.path(), Text: text, Parameters: parameters, PageSize: listPage}
		for page, err := range q.Pages(ctx, send) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, document := range page.Documents {
				if !yield(document, nil) {
					return
				}
			}
		}
	}
}

// letterQuery returns the query for the documents that s selects. It quotes every member's name,
// because some are words of the language.
func letterQuery(s letters.Selection) (text string, parameters []rest.Parameter) {
	var columns, conditions []string
	for _, name := range s.Members() {
		columns = append(columns, fmt.Sprintf("c[%q]", name))
	}
	where := func(name, operator, value string) {
		parameter := fmt.Sprintf("@p%d", len(parameters))
		conditions = append(conditions, fmt.Sprintf("c[%q] %s %s", name, operator, parameter))
		parameters = append(parameters, rest.Parameter{Name: parameter, Value: value})
	}
	all := s.Conditions()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		where(name, "=", all[name])
	}
	if !s.Range.IsZero() && s.PartsOf == "" {
		where("hash", ">=", s.Range.Min)
		where("hash", "<", s.Range.Max)
	}
	return "SELECT " + strings.Join(columns, ", ") + " FROM c WHERE " + strings.Join(conditions, " AND "), parameters
}

var (
	_ letters.Container = (*Letters)(nil)
	_ letters.Documents = (*letterDocuments)(nil)
	_ feed.Identifier   = (*letterDocuments)(nil)
)

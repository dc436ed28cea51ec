package rest

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"strconv"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// Query is a query over all partitions of a container whose rows the service does not have
// to merge: it has no ORDER BY, no TOP and no aggregate.
type Query struct {
	// Operation names the query in errors: "list the leases".
	Operation string
	// Path is the escaped path of the container.
	Path       string
	Text       string
	Parameters []Parameter
	// PageSize is the largest number of documents in a page.
	PageSize int
}

// Parameter is a parameter of a [Query].
type Parameter struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Page is a page of documents.
type Page struct {
	// Header has the headers of the response.
	Header    http.Header
	Documents []json.RawMessage
}

// Pages returns the pages of the query, which send sends. After an error it returns nothing
// more. A page may be empty though others follow it.
func (q Query) Pages(ctx context.Context, send func(context.Context, Request) (Response, error)) iter.Seq2[Page, error] {
	return func(yield func(Page, error) bool) {
		body, err := json.Marshal(struct {
			Query      string      `json:"query"`
			Parameters []Parameter `json:"parameters"`
		}{q.Text, q.Parameters})
		if err != nil {
			yield(Page{}, fmt.Errorf("%s: %w", q.Operation, err))
			return
		}
		for continuation := ""; ; {
			r := Request{Operation: q.Operation, Method: http.MethodPost, Path: q.Path + "/docs", Body: body, Header: http.Header{
				"Content-Type":            {wire.ContentTypeQuery},
				wire.HeaderIsQuery:        {"True"},
				wire.HeaderCrossPartition: {"True"},
				wire.HeaderMaxItemCount:   {strconv.Itoa(q.PageSize)},
			}}
			if continuation != "" {
				r.Header.Set(wire.HeaderContinuation, continuation)
			}
			got, err := send(ctx, r)
			if err != nil {
				yield(Page{}, err)
				return
			}
			page := Page{Header: got.Header}
			var rows struct {
				Documents []json.RawMessage `json:"Documents"`
			}
			if err := json.Unmarshal(got.Body, &rows); err != nil {
				yield(Page{}, fmt.Errorf("%s: the response cannot be read: %w", q.Operation, err))
				return
			}
			page.Documents = rows.Documents
			if continuation = got.Header.Get(wire.HeaderContinuation); !yield(page, nil) || continuation == "" {
				return
			}
		}
	}
}

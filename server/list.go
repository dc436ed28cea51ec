package server

import (
	"encoding/base64"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/internal/querypage"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// This file serves the lists of databases, containers, users, permissions and offers. A
// list is short, so the server always reads it as a whole. It returns a list in pages if
// the client sends x-ms-max-item-count. The continuation is the key after which the next
// page begins. So if a list changes between two pages, no item that exists throughout is
// skipped.
//
// A POST with a query to the path of a list returns the rows of the query. SDKs find the
// throughput of a container by a query over the offers, and each SDK has another text for
// it. Supported: the language of internal/query, with all features that a query within
// one partition key has.

// resourceList holds all resources of one type in one owner, sorted by key.
type resourceList struct {
	// owner is the rid of the resource that contains the listed ones. name is the member
	// of the answer that holds the list, such as "Offers".
	owner, name string
	items       []querypage.Item
}

func (l *resourceList) add(key string, body []byte) {
	l.items = append(l.items, querypage.Item{Key: key, Body: body})
}

func (l *resourceList) sort() {
	slices.SortFunc(l.items, func(a, b querypage.Item) int { return strings.Compare(a.Key, b.Key) })
}

// listed returns an operation that answers with a page of the list that all returns.
func listed(all func(*request) (resourceList, error)) func(*request) error {
	return func(x *request) error {
		l, err := all(x)
		if err != nil {
			return err
		}
		return x.sendList(l)
	}
}

// queried returns an operation that runs the query of a request over the list that all
// returns.
func queried(all func(*request) (resourceList, error)) func(*request) error {
	return func(x *request) error {
		l, err := all(x)
		if err != nil {
			return err
		}
		b, _, err := x.query()
		if err != nil {
			return err
		}
		if err := x.acquireSlot(sortSlots); err != nil {
			return err
		}
		if l.items, err = querypage.List(x.r.Context(), b, l.items, x.s.budget.sortRows()); err != nil {
			return err
		}
		return x.sendList(l)
	}
}

// sendList answers with the page of a list that the request selects by its continuation
// and page size.
func (x *request) sendList(l resourceList) error {
	n, err := x.maxItems()
	if err != nil {
		return err
	}
	after, err := listToken(x.header(wire.HeaderContinuation), l.owner, l.name)
	if err != nil {
		return err
	}
	items := l.items
	for len(items) > 0 && after != "" && items[0].Key <= after {
		items = items[1:]
	}
	if n > 0 && n < len(items) {
		items = items[:n]
		x.continuation = querypage.JoinToken(tokenList, l.owner, l.name, base64.RawURLEncoding.EncodeToString([]byte(items[n-1].Key)))
	}
	body := []byte(`{"_rid":"` + l.owner + `","` + l.name + `":[`)
	for i, item := range items {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, item.Body...)
	}
	body = append(body, `],"_count":`+strconv.Itoa(len(items))+`}`...)
	x.charge, x.count = metadataReadCharge, len(items)
	return x.send(http.StatusOK, body)
}

// tokenList marks a continuation of a list. The continuation is l~<rid of the
// owner>~<name of the list>~<key>~<checksum>.
const tokenList = "l"

// listToken parses a continuation and returns the key after which its page begins. It
// returns "" for an empty text, which means the first page.
func listToken(text, owner, name string) (after string, err error) {
	if text == "" {
		return "", nil
	}
	if parts := querypage.SplitToken(text); len(parts) == 4 && parts[0] == tokenList && parts[1] == owner && parts[2] == name {
		key, err := base64.RawURLEncoding.Strict().DecodeString(parts[3])
		if err == nil && len(key) > 0 {
			return string(key), nil
		}
	}
	return "", querypage.ErrToken
}

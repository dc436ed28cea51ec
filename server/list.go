package server

import (
	"encoding/base64"
	"net/http"
	"strconv"

	"github.com/changefeed-go/changefeed/internal/querypage"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// Lists of databases, containers and offers: read whole, since there are few, and given out in pages where the client asks for
// pages (x-ms-max-item-count). The continuation is the name behind which the next page begins, so a list that changes
// meanwhile skips nothing that stays.

// sendList answers with a page of a list. rid is the owner's, member what the list is called in the answer.
func (x *exchange) sendList(rid, member string, all []querypage.Item) error {
	n, err := x.maxItems()
	if err != nil {
		return err
	}
	after, err := listToken(x.header(wire.HeaderContinuation), rid, member)
	if err != nil {
		return err
	}
	for len(all) > 0 && after != "" && all[0].Key <= after {
		all = all[1:]
	}
	if n > 0 && n < len(all) {
		all = all[:n]
		x.continuation = querypage.JoinToken(tokenList, rid, member, base64.RawURLEncoding.EncodeToString([]byte(all[n-1].Key)))
	}
	body := []byte(`{"_rid":"` + rid + `","` + member + `":[`)
	for i, r := range all {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, r.Body...)
	}
	body = append(body, `],"_count":`+strconv.Itoa(len(all))+`}`...)
	x.charge, x.count = listCharge, len(all)
	return x.send(http.StatusOK, body)
}

// tokenList begins a continuation of a list: l~<rid of the owner>~<member>~<key>~<checksum>.
const tokenList = "l"

// listToken is the key behind which a list's continuation goes on; empty: the start.
func listToken(text, rid, member string) (after string, err error) {
	if text == "" {
		return "", nil
	}
	if parts := querypage.SplitToken(text); len(parts) == 4 && parts[0] == tokenList && parts[1] == rid && parts[2] == member {
		key, err := base64.RawURLEncoding.Strict().DecodeString(parts[3])
		if err == nil && len(key) > 0 {
			return string(key), nil
		}
	}
	return "", badRequest("the header x-ms-continuation is %.60q, which is no continuation of this list: "+
		"send what an earlier page of it was answered with, or nothing", text)
}

// Queries of lists: POST with a query where GET lists. SDKs find the throughput of a container by a query
// of offers, each with a text of its own.
//
// Supported: the language of internal/query, with everything that a query within a partition key may have.

func (s *Server) queryDatabases(x *exchange) error {
	all, err := s.allDatabases(x.r.Context())
	if err != nil {
		return err
	}
	return x.sendQueried("", "Databases", all)
}

func (s *Server) queryContainers(x *exchange) error {
	d, err := x.parent()
	if err != nil {
		return err
	}
	all, err := s.allContainers(x.r.Context(), d)
	if err != nil {
		return err
	}
	return x.sendQueried(d.RID, "DocumentCollections", all)
}

func (s *Server) queryOffers(x *exchange) error {
	all, err := s.offerList(x.r.Context())
	if err != nil {
		return err
	}
	return x.sendQueried("", "Offers", all)
}

// sendQueried answers with the rows of the query over a list.
func (x *exchange) sendQueried(rid, member string, all []querypage.Item) error {
	b, _, err := x.query()
	if err != nil {
		return err
	}
	if err := x.enter(forSorts); err != nil {
		return err
	}
	rows, err := querypage.List(x.r.Context(), b, all, x.s.budget.sortRows())
	if err != nil {
		return err
	}
	return x.sendList(rid, member, rows)
}

package server

import (
	"encoding/base64"
	"net/http"
	"strconv"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// Lists of databases, containers and offers: read whole, since there are few, and given out in pages where the client asks for
// pages (x-ms-max-item-count). The continuation is the name behind which the next page begins, so a list that changes
// meanwhile skips nothing that stays.

// resource is a database, container or offer in a list. Lists are sorted by key.
type resource struct {
	key  string
	body []byte
}

// sendList answers with a page of a list. rid is the owner's, member what the list is called in the answer.
func (x *exchange) sendList(rid, member string, all []resource) error {
	n, err := x.maxItems()
	if err != nil {
		return err
	}
	after, err := listToken(x.header(wire.HeaderContinuation), rid, member)
	if err != nil {
		return err
	}
	for len(all) > 0 && after != "" && all[0].key <= after {
		all = all[1:]
	}
	if n > 0 && n < len(all) {
		all = all[:n]
		x.continuation = seal(tokenList, rid, member, base64.RawURLEncoding.EncodeToString([]byte(all[n-1].key)))
	}
	body := []byte(`{"_rid":"` + rid + `","` + member + `":[`)
	for i, r := range all {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, r.body...)
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
	if parts := unseal(text); len(parts) == 4 && parts[0] == tokenList && parts[1] == rid && parts[2] == member {
		key, err := base64.RawURLEncoding.Strict().DecodeString(parts[3])
		if err == nil && len(key) > 0 {
			return string(key), nil
		}
	}
	return "", badRequest("the header x-ms-continuation is %.60q, which is no continuation of this list: "+
		"send what an earlier page of it was answered with, or nothing", text)
}

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
	after, err := base64.RawURLEncoding.DecodeString(x.header(wire.HeaderContinuation))
	if err != nil {
		return badRequest("the header x-ms-continuation is %.40q, which this server didn't write", x.header(wire.HeaderContinuation))
	}
	for len(all) > 0 && len(after) > 0 && all[0].key <= string(after) {
		all = all[1:]
	}
	if n > 0 && n < len(all) {
		all = all[:n]
		x.continuation = base64.RawURLEncoding.EncodeToString([]byte(all[n-1].key))
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

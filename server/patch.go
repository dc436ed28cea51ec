package server

import (
	"errors"
	"net/http"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/patch"
	"github.com/changefeed-go/changefeed/server/query"
	"github.com/changefeed-go/changefeed/store"
)

// PATCH docs/<id>: a document is changed in place.
//
// Supported: add, set, replace, remove, incr and move, at most ten of them, on members and on elements of arrays; a condition
// (status 412 when it is not true); If-Match; the body with or without {"operations":...} around it. All is done in
// one step of the store: no other write comes between the condition, the reading and the writing. The
// id, the partition key and system properties can't be patched.

func (s *Server) patchDocument(x *exchange) error {
	c, key, err := x.documentKey()
	if err != nil {
		return err
	}
	body, err := x.body(maxDocumentBody)
	if err != nil {
		return err
	}
	paths, err := unpatchable(x, c)
	if err != nil {
		return err
	}
	change, err := patchBy(body, paths)
	if err != nil {
		return err
	}
	o := x.writeOptions()
	r, err := x.onDocument(c, key, func(key feed.PartitionKey, id string) (store.Result, error) {
		return c.Change(x.r.Context(), key, id, change, o)
	})
	return x.sendWritten(r, err)
}

// errCondition is the answer to a patch whose condition isn't true.
var errCondition = failure(http.StatusPreconditionFailed, 0, "the condition of the patch is not true of the item")

// unpatchable are the paths that no patch may touch.
func unpatchable(x *exchange, c *store.Container) ([][]string, error) {
	p, err := c.Properties(x.r.Context())
	if err != nil {
		return nil, above(err)
	}
	return append(pathNames(p.KeyPaths), []string{"id"}, []string{"_rid"}, []string{"_self"}, []string{"_etag"},
		[]string{"_attachments"}, []string{"_ts"}, []string{"_lsn"}), nil
}

// patchBy makes the store's function of the body of a patch. All that is wrong with the body itself is found here, before the
// store's writes wait for it.
func patchBy(body []byte, unpatchable [][]string) (func(old []byte) ([]byte, error), error) {
	p, err := patch.Parse(body)
	if err == nil {
		err = p.Check(unpatchable...)
	}
	if err != nil {
		return nil, patchFailure(err)
	}
	var condition *query.Filter
	if p.Condition != "" {
		if condition, err = query.Condition(p.Condition); err != nil {
			return nil, queryFailure(err)
		}
	}
	return func(old []byte) ([]byte, error) {
		if condition != nil {
			holds, err := condition.Match(old)
			if err != nil {
				return nil, badRequest("the condition of the patch can't be judged: %v", err)
			}
			if !holds {
				return nil, errCondition
			}
		}
		after, err := p.Apply(old)
		return after, patchFailure(err)
	}, nil
}

// patchFailure makes errors of a patch those of a request.
func patchFailure(err error) error {
	if p := (*patch.Error)(nil); errors.As(err, &p) {
		return badRequest("%s", p.Error())
	}
	return err
}

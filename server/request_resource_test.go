package server

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// deletingBody is the body of a request that deletes the container when the server begins
// to read it.
type deletingBody struct {
	*strings.Reader
	delete func()
}

func (b *deletingBody) Read(p []byte) (int, error) {
	b.delete()
	return b.Reader.Read(p)
}

func (b *deletingBody) Close() error { return nil }

// A container is deleted while a request for an item in it is served. The answer must be
// the 404 for a missing container. After the 404 for a missing item, the client would
// continue to use the container.
func TestAContainerThatIsDeletedUnderARequestIsTheOwnerThatIsMissing(t *testing.T) {
	const doc = `{"id":"1","pk":"ada"}`
	for what, h := range map[string]headers{
		"create": nil,
		"upsert": {"x-ms-documentdb-is-upsert": "true"},
		"batch":  {"x-ms-cosmos-is-batch-request": "true", "x-ms-cosmos-batch-atomic": "true"},
		"query":  queryHeaders(),
	} {
		ts := newTestServer(t, Options{}).withOrders()
		body := map[string]string{"batch": `[{"operationType":"Upsert","resourceBody":` + doc + `}]`, "query": `{"query":"SELECT * FROM c"}`}[what]
		if body == "" {
			body = doc
		}
		r := ts.request("POST", orders+"/docs", together(pk(`["ada"]`), h), body)
		r.Body = &deletingBody{strings.NewReader(body), sync.OnceFunc(func() {
			if err := ts.db.DeleteContainer(context.Background(), "shop", "orders"); err != nil {
				t.Error(err)
			}
		})}
		w := httptest.NewRecorder()
		ts.ServeHTTP(w, r)
		if w.Code != 404 || !strings.Contains(w.Body.String(), "Resource Not Found") {
			t.Errorf("%s: %d/%s %s", what, w.Code, w.Header().Get("x-ms-substatus"), w.Body)
		}
	}
}

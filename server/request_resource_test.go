package server

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// deletingBody is a body that deletes the container when its first byte is read.
type deletingBody struct {
	*strings.Reader
	delete func()
}

func (b *deletingBody) Read(p []byte) (int, error) {
	b.delete()
	return b.Reader.Read(p)
}

func (b *deletingBody) Close() error { return nil }

// If the answer is "not found" for the item alone, the client continues as if the
// container existed.
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
		if w.Code != 404 || w.Header().Get("x-ms-substatus") != "1003" {
			t.Errorf("%s: %d/%s %s", what, w.Code, w.Header().Get("x-ms-substatus"), w.Body)
		}
	}
}

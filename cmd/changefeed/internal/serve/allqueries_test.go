package serve

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/internal/wire/wiretest"
)

func TestServeAllQueriesServesQueriesThatSDKsMerge(t *testing.T) {
	for _, all := range []bool{false, true} {
		r := start(t, Config{TLS: plain, Partitions: 2, ServeAllQueries: all})
		c, err := wiretest.New(r.values["endpoint"], r.client())
		if err != nil {
			t.Fatal(err)
		}
		orders, err := c.Make(t.Context(), "shop", "orders")
		if err != nil {
			t.Fatal(err)
		}
		for _, pk := range []string{"a", "b", "c"} {
			if err := c.Put(t.Context(), orders, pk, `{"id":"1","pk":"`+pk+`"}`); err != nil {
				t.Fatal(err)
			}
		}
		_, body, err := c.Do(t.Context(), http.MethodPost, orders+"/docs", `{"query":"SELECT VALUE COUNT(1) + 1 FROM c"}`,
			"Content-Type", wire.ContentTypeQuery, wire.HeaderCrossPartition, "True")
		var refused *wiretest.StatusError
		switch {
		case all && (err != nil || !strings.Contains(string(body), `"Documents":[4]`)):
			t.Errorf("served: %s %v", body, err)
		case !all && (!errors.As(err, &refused) || !strings.Contains(string(body), "Compositions of aggregates")):
			t.Errorf("not to be served: %s %v", body, err)
		}
	}
}

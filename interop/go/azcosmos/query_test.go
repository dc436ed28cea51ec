package azcosmos

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// queried reads all pages of a query, and returns the results.
func queried[T any](t *testing.T, pager *runtime.Pager[azcosmos.QueryItemsResponse]) []T {
	t.Helper()
	var found []T
	for pager.More() {
		page, err := pager.NextPage(t.Context())
		ok(t, err)
		for _, b := range page.Items {
			found = append(found, decode[T](t, b))
		}
	}
	return found
}

// fruit is an item of the data that the queries read: 60 items under six keys in two
// partitions.
type fruit struct {
	ID    string   `json:"id"`
	PK    string   `json:"pk"`
	N     int      `json:"n"`
	Name  string   `json:"name"`
	Tags  []string `json:"tags"`
	Price *float64 `json:"price,omitempty"`
	Inner struct {
		X int `json:"x y"`
	} `json:"inner"`
}

func orchard(t *testing.T) (*azcosmos.ContainerClient, []fruit) {
	t.Helper()
	c := container(t)
	names := []string{"apple", "Apricot", "banana", "it's", "plum", "quince"}
	var all []fruit
	for n := range 60 {
		f := fruit{ID: fmt.Sprintf("%02d", n), PK: names[n%6], N: n, Name: names[n%6], Tags: []string{"t" + fmt.Sprint(n%3)}}
		f.Inner.X = n % 4
		if n%2 == 0 {
			price := float64(n) / 4
			f.Price = &price
		}
		_, err := c.CreateItem(t.Context(), pk(f.PK), encode(f), nil)
		ok(t, err)
		all = append(all, f)
	}
	return c, all
}

func ids(fruits []fruit) string {
	var out []string
	for _, f := range fruits {
		out = append(out, f.ID)
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func matching(all []fruit, match func(fruit) bool) string {
	var out []fruit
	for _, f := range all {
		if match(f) {
			out = append(out, f)
		}
	}
	return ids(out)
}

func TestQueryFilters(t *testing.T) {
	env.Scenario(t, "query-filter", func(t *testing.T) {
		c, all := orchard(t)
		for where, match := range map[string]func(fruit) bool{
			"c.n = 7":                            func(f fruit) bool { return f.N == 7 },
			"c.n != 7":                           func(f fruit) bool { return f.N != 7 },
			"c.n < 10 AND c.n >= 4":              func(f fruit) bool { return f.N < 10 && f.N >= 4 },
			"c.n <= 3 OR c.n > 55":               func(f fruit) bool { return f.N <= 3 || f.N > 55 },
			"NOT (c.name = 'plum')":              func(f fruit) bool { return f.Name != "plum" },
			"c.name IN ('plum', \"it's\")":       func(f fruit) bool { return f.Name == "plum" || f.Name == "it's" },
			"c.n BETWEEN 10 AND 12":              func(f fruit) bool { return f.N >= 10 && f.N <= 12 },
			"IS_DEFINED(c.price)":                func(f fruit) bool { return f.Price != nil },
			"c.price > 0":                        func(f fruit) bool { return f.Price != nil && *f.Price > 0 },
			"c.price <> null":                    func(f fruit) bool { return f.Price != nil },
			`c.inner["x y"] = 2`:                 func(f fruit) bool { return f.Inner.X == 2 },
			"c.tags[0] = 't1'":                   func(f fruit) bool { return f.Tags[0] == "t1" },
			"ARRAY_CONTAINS(c.tags, 't2')":       func(f fruit) bool { return f.Tags[0] == "t2" },
			`CONTAINS(c.name, "an")`:             func(f fruit) bool { return strings.Contains(f.Name, "an") },
			"ENDSWITH(c.name, 'e')":              func(f fruit) bool { return strings.HasSuffix(f.Name, "e") },
			"c.n = '7'":                          func(fruit) bool { return false },
			"c.nowhere = 1 OR c.n = 1":           func(f fruit) bool { return f.N == 1 },
			"c.pk = 'plum' and (true or c.n>99)": func(f fruit) bool { return f.PK == "plum" },
		} {
			query := "SELECT * FROM c WHERE " + where
			equal(t, ids(queried[fruit](t, c.NewQueryItemsPager(query, azcosmos.NewPartitionKey(), nil))), matching(all, match), where)
			for _, key := range []string{"plum", "it's", "none"} {
				equal(t, ids(queried[fruit](t, c.NewQueryItemsPager(query, pk(key), nil))),
					matching(all, func(f fruit) bool { return f.PK == key && match(f) }), where+" under "+key)
			}
		}
		got := queried[map[string]any](t, c.NewQueryItemsPager("select c.id as Name, c.price, c.inner['x y'] from c where c.n = 1", azcosmos.NewPartitionKey(), nil))
		equal(t, fmt.Sprint(got), "[map[Name:01 x y:1]]", "a projection")
		values := queried[int](t, c.NewQueryItemsPager("SELECT VALUE r.n FROM root r WHERE r.n < 3", azcosmos.NewPartitionKey(), nil))
		slices.Sort(values)
		equal(t, fmt.Sprint(values), "[0 1 2]", "values")

		for _, wrong := range []string{"SELEC * FROM c", "SELECT * FROM c WHERE", "SELECT * FROM c WHERE NOSUCH(c.n)"} {
			_, err := c.NewQueryItemsPager(wrong, pk("plum"), nil).NextPage(t.Context())
			refused(t, err, 400)
		}
	})
}

func TestQueryParameters(t *testing.T) {
	env.Scenario(t, "query-parameters", func(t *testing.T) {
		c := container(t)
		values := []any{"plain", `it's "quoted" \ back`, "' OR 1=1 --", "é 日本 😀", 7, -1.5, true, false, nil}
		for n, v := range values {
			_, err := c.CreateItem(t.Context(), pk("p"), encode(map[string]any{"id": fmt.Sprint(n), "pk": "p", "v": v, "n": n}), nil)
			ok(t, err)
		}
		for n, v := range values {
			for _, key := range []azcosmos.PartitionKey{pk("p"), azcosmos.NewPartitionKey()} {
				found := queried[map[string]any](t, c.NewQueryItemsPager("SELECT * FROM c WHERE c.v = @v AND c.n >= @low", key, &azcosmos.QueryOptions{
					QueryParameters: []azcosmos.QueryParameter{{Name: "@v", Value: v}, {Name: "@low", Value: 0}},
				}))
				if len(found) != 1 || found[0]["id"] != fmt.Sprint(n) {
					t.Errorf("@v = %v finds %v", v, found)
				}
			}
		}
	})
}

func TestQueryPaging(t *testing.T) {
	env.Scenario(t, "query-paging", func(t *testing.T) {
		c, all := orchard(t)
		for _, size := range []int32{1, 7, 59, 1000} {
			var found []fruit
			reader, token, pages := c, (*string)(nil), 0
			for {
				page, err := reader.NewQueryItemsPager("SELECT * FROM c WHERE c.n >= 0", azcosmos.NewPartitionKey(), &azcosmos.QueryOptions{
					PageSizeHint: size, ContinuationToken: token,
				}).NextPage(t.Context())
				ok(t, err)
				if len(page.Items) > int(size) {
					t.Fatalf("a page of %d items, asked for %d", len(page.Items), size)
				}
				for _, b := range page.Items {
					found = append(found, decode[fruit](t, b))
				}
				if token, pages = page.ContinuationToken, pages+1; token == nil {
					break
				}
				if pages%20 == 1 { // a new client can resume with only the continuation
					fresh, err := client(t).NewContainer(databaseOf(c), c.ID())
					ok(t, err)
					reader = fresh
				}
			}
			equal(t, len(found), 60, fmt.Sprintf("items in pages of %d", size))
			equal(t, ids(found), ids(all), "items")
		}
		garbled := "no continuation of mine"
		_, err := c.NewQueryItemsPager("SELECT * FROM c", azcosmos.NewPartitionKey(), &azcosmos.QueryOptions{ContinuationToken: &garbled}).NextPage(t.Context())
		refused(t, err, 400)
	})
}

func TestQueryStartsWith(t *testing.T) {
	env.Scenario(t, "query-startswith", func(t *testing.T) {
		c, all := orchard(t)
		prefix := &azcosmos.QueryOptions{QueryParameters: []azcosmos.QueryParameter{{Name: "@prefix", Value: "ap"}}}
		for query, match := range map[string]func(fruit) bool{
			"SELECT * FROM c WHERE STARTSWITH(c.name, @prefix)":        func(f fruit) bool { return strings.HasPrefix(f.Name, "ap") },
			"SELECT * FROM c WHERE StartsWith(c.name, @prefix, true)":  func(f fruit) bool { return strings.HasPrefix(strings.ToLower(f.Name), "ap") },
			"SELECT * FROM c WHERE startswith(c.name, @prefix, false)": func(f fruit) bool { return strings.HasPrefix(f.Name, "ap") },
			"SELECT * FROM c WHERE STARTSWITH(c.n, @prefix)":           func(fruit) bool { return false },
			"SELECT * FROM c WHERE STARTSWITH(c.id, '')":               func(fruit) bool { return true },
		} {
			equal(t, ids(queried[fruit](t, c.NewQueryItemsPager(query, azcosmos.NewPartitionKey(), prefix))), matching(all, match), query)
		}
	})
}

func TestQueryTop(t *testing.T) {
	env.Scenario(t, "query-top", func(t *testing.T) {
		c, _ := orchard(t)
		for _, key := range []azcosmos.PartitionKey{pk("plum"), pk("it's")} {
			for _, size := range []int32{0, 2} {
				found := queried[fruit](t, c.NewQueryItemsPager("SELECT TOP 5 * FROM c WHERE c.n >= 10", key, &azcosmos.QueryOptions{PageSizeHint: size}))
				equal(t, len(found), 5, "items found")
				distinct := map[string]bool{}
				for _, f := range found {
					if distinct[f.ID] = true; f.N < 10 {
						t.Errorf("%s does not match", f.ID)
					}
				}
				equal(t, len(distinct), 5, "different items found")
			}
		}
		equal(t, len(queried[fruit](t, c.NewQueryItemsPager("SELECT TOP 0 * FROM c", pk("plum"), nil))), 0, "TOP 0")
		equal(t, len(queried[fruit](t, c.NewQueryItemsPager("SELECT TOP @n * FROM c", pk("plum"), &azcosmos.QueryOptions{
			QueryParameters: []azcosmos.QueryParameter{{Name: "@n", Value: 999}},
		}))), 10, "TOP of more than there are")
	})
}

func TestQueryOrderWithinAKey(t *testing.T) {
	env.Scenario(t, "query-point-order", func(t *testing.T) {
		c, _ := orchard(t)
		order := func(query string) string {
			return fmt.Sprint(queried[int](t, c.NewQueryItemsPager(query, pk("plum"), nil)))
		}
		equal(t, order("SELECT VALUE c.n FROM c ORDER BY c.n DESC"), "[58 52 46 40 34 28 22 16 10 4]", "descending")
		equal(t, order("SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 2 LIMIT 3"), "[16 22 28]", "offset and limit")
		equal(t, order("SELECT VALUE COUNT(1) FROM c WHERE c.n > 20"), "[7]", "count")
		paged := queried[int](t, c.NewQueryItemsPager("SELECT VALUE c.n FROM c ORDER BY c.n", pk("plum"), &azcosmos.QueryOptions{PageSizeHint: 3}))
		equal(t, fmt.Sprint(paged), "[4 10 16 22 28 34 40 46 52 58]", "in pages")
	})
}

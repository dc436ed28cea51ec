package azcosmos

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// asked runs a query and returns its results in one line, as sorted JSON texts.
func asked(t *testing.T, c *azcosmos.ContainerClient, query string, key azcosmos.PartitionKey, size int32) string {
	t.Helper()
	var out []string
	for _, v := range queried[any](t, c.NewQueryItemsPager(query, key, &azcosmos.QueryOptions{PageSizeHint: size})) {
		out = append(out, string(encode(v)))
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

func TestQueriesWithinAKeyNeedNoPlan(t *testing.T) {
	env.Scenario(t, "query-within-key", func(t *testing.T) {
		c, _ := orchard(t)
		for query, want := range map[string]string{
			"SELECT DISTINCT VALUE c.tags[0] FROM c":                                      `"t1"`,
			"SELECT c.inner['x y'] AS k, COUNT(1) AS many FROM c GROUP BY c.inner['x y']": `{"k":0,"many":5} {"k":2,"many":5}`,
			"SELECT COUNT(1) AS many, SUM(c.n) AS total, MAX(c.n) AS most FROM c":         `{"many":10,"most":58,"total":310}`,
			"SELECT VALUE SUM(c.n) / COUNT(1) FROM c":                                     `31`,
			"SELECT VALUE {'least': MIN(c.n), 'all': [COUNT(1)]} FROM c":                  `{"all":[10],"least":4}`,
			"SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 2 LIMIT 3":                       `16 22 28`,
			"SELECT VALUE AVG(c.price) FROM c WHERE c.n > 100":                            ``,
		} {
			for _, size := range []int32{0, 1, 7, 1000} {
				equal(t, asked(t, c, query, pk("plum"), size), want, fmt.Sprintf("%s in pages of %d", query, size))
			}
		}
	})
}

func TestQueriesOfAPrefixOfAKey(t *testing.T) {
	env.Scenario(t, "query-prefix", func(t *testing.T) {
		c := container(t, "/tenant", "/user")
		for n := range 40 {
			tenant, user := fmt.Sprint("t", 1+n/20), fmt.Sprint("u", n%20)
			_, err := c.CreateItem(t.Context(), azcosmos.NewPartitionKeyString(tenant).AppendString(user), encode(map[string]any{
				"id": user, "tenant": tenant, "user": user, "n": n % 20, "half": n % 20 / 2,
			}), nil)
			ok(t, err)
		}
		for _, when := range []string{"before a split", "after a split"} {
			for query, want := range map[string]string{
				"SELECT VALUE c.n FROM c WHERE c.n < 5":                                `0 1 2 3 4`,
				"SELECT VALUE c.n FROM c ORDER BY c.n OFFSET 3 LIMIT 4":                `3 4 5 6`,
				"SELECT TOP 3 VALUE c.n FROM c ORDER BY c.n":                           `0 1 2`,
				"SELECT VALUE COUNT(1) FROM c":                                         `20`,
				"SELECT VALUE SUM(c.n) FROM c":                                         `190`,
				"SELECT DISTINCT VALUE c.half FROM c WHERE c.n < 6":                    `0 1 2`,
				"SELECT c.half, COUNT(1) AS many FROM c WHERE c.n < 3 GROUP BY c.half": `{"half":0,"many":2} {"half":1,"many":1}`,
			} {
				for _, size := range []int32{0, 1, 7, 1000} {
					equal(t, asked(t, c, query, pk("t1"), size), want, fmt.Sprintf("%s in pages of %d %s", query, size, when))
				}
			}
			ok(t, env.Admin.SplitFirst(t.Context(), at(c)))
		}
	})
}

func TestJoinsAndSubqueries(t *testing.T) {
	env.Scenario(t, "query-join", func(t *testing.T) {
		c := container(t)
		for n := range 12 {
			children := []map[string]any{}
			for k := range n % 4 {
				children = append(children, map[string]any{"name": fmt.Sprint("child ", k), "grade": k})
			}
			key := fmt.Sprint("key ", n)
			_, err := c.CreateItem(t.Context(), pk(key), encode(map[string]any{
				"id": fmt.Sprint(n), "pk": key, "n": n, "children": children, "list": []int{n, n + 1},
			}), nil)
			ok(t, err)
		}
		for query, want := range map[string]string{
			"SELECT c.n, x.grade FROM c JOIN x IN c.children WHERE x.grade > 1":                              `{"grade":2,"n":11} {"grade":2,"n":3} {"grade":2,"n":7}`,
			"SELECT VALUE x FROM x IN c.list WHERE x < 3":                                                    `0 1 1 2 2`,
			"SELECT VALUE x.grade * 10 + y FROM c JOIN x IN c.children JOIN y IN c.list WHERE c.n = 7":       `17 18 27 28 7 8`,
			"SELECT VALUE c.id FROM c WHERE EXISTS(SELECT VALUE x FROM x IN c.children WHERE x.grade = 2)":   `"11" "3" "7"`,
			"SELECT VALUE ARRAY(SELECT VALUE x.name FROM x IN c.children) FROM c WHERE c.n IN (4, 6)":        `["child 0","child 1"] []`,
			"SELECT VALUE (SELECT VALUE COUNT(1) FROM x IN c.children) FROM c WHERE c.n < 4":                 `0 1 2 3`,
			"SELECT VALUE s FROM c JOIN (SELECT VALUE x.grade FROM x IN c.children WHERE x.grade > 1) s":     `2 2 2`,
			"SELECT TOP 100 VALUE x.name FROM c JOIN x IN c.children WHERE c.pk = 'key 3' AND c.id IN ('3')": `"child 0" "child 1" "child 2"`,
		} {
			for _, size := range []int32{0, 1, 7, 1000} {
				equal(t, asked(t, c, query, azcosmos.NewPartitionKey(), size), want, fmt.Sprintf("%s in pages of %d", query, size))
			}
		}
		equal(t, asked(t, c, "SELECT VALUE x.name FROM c JOIN x IN c.children", pk("key 3"), 1), `"child 0" "child 1" "child 2"`, "under one key")
		equal(t, asked(t, c, "SELECT VALUE COUNT(1) FROM c JOIN x IN c.children", pk("key 3"), 0), "3", "the count of a JOIN")
	})
}

// This SDK does not support query plans. So the server must refuse a query over several
// partitions that needs a plan, as the service does.
func TestQueriesThatNeedAPlanAndMissingResourcesAreRefused(t *testing.T) {
	env.Scenario(t, "query-refused", func(t *testing.T) {
		c, _ := orchard(t)
		for _, query := range []string{
			"SELECT * FROM c ORDER BY c.n", "SELECT DISTINCT c.name FROM c", "SELECT VALUE COUNT(1) FROM c", "SELECT VALUE SUM(c.n) FROM c",
			"SELECT c.name FROM c GROUP BY c.name", "SELECT * FROM c OFFSET 5 LIMIT 5", "SELECT TOP 5 * FROM c",
		} {
			_, err := c.NewQueryItemsPager(query, azcosmos.NewPartitionKey(), nil).NextPage(t.Context())
			refused(t, err, 400)
			if !strings.Contains(err.Error(), "cross partition query can not be directly served by the gateway") {
				t.Errorf("%s: the refusal is not the service's sentence: %v", query, err)
			}
		}
		_, err := c.NewQueryItemsPager("SELECT c.name, COUNT(1) AS k FROM c GROUP BY c.name", azcosmos.NewPartitionKey(), nil).NextPage(t.Context())
		refused(t, err, 400)
		if !strings.Contains(err.Error(), "Cross partition query only supports 'VALUE") {
			t.Errorf("the refusal of an aggregate without VALUE is not the service's sentence: %v", err)
		}
		for query, said := range map[string]string{
			"SELECT ST_DISTANCE(c.a, c.b) FROM c":                    "ST_DISTANCE",
			"SELECT * FROM c WHERE FULLTEXTCONTAINS(c.name, 'plum')": "FULLTEXTCONTAINS",
			"SELECT VectorDistance(c.v, [1]) FROM c":                 "VECTORDISTANCE",
			"SELECT VALUE NOSUCH(c.n) FROM c":                        "NOSUCH",
			"SELECT VALUE udf.mine(c.n) FROM c":                      "UDF",
		} {
			for _, key := range []azcosmos.PartitionKey{pk("plum"), azcosmos.NewPartitionKey()} {
				_, err := c.NewQueryItemsPager(query, key, nil).NextPage(t.Context())
				refused(t, err, 400)
				if !strings.Contains(strings.ToUpper(err.Error()), said) {
					t.Errorf("%s: the refusal doesn't name %s: %v", query, said, err)
				}
			}
		}
	})
}

func TestSplitsInTheMiddleOfQueries(t *testing.T) {
	env.Scenario(t, "query-split", func(t *testing.T) {
		for _, one := range []struct {
			query string
			key   azcosmos.PartitionKey
			want  []int
		}{
			{"SELECT VALUE c.n FROM c", azcosmos.NewPartitionKey(), nil},
			{"SELECT VALUE c.n FROM c ORDER BY c.n DESC", pk("plum"), []int{58, 52, 46, 40, 34, 28, 22, 16, 10, 4}},
		} {
			c, _ := orchard(t)
			pager := c.NewQueryItemsPager(one.query, one.key, &azcosmos.QueryOptions{PageSizeHint: 3})
			var got []int
			for pages := 0; pager.More(); pages++ {
				if pages == 1 || pages == 3 {
					ok(t, env.Admin.SplitFirst(t.Context(), at(c)))
				}
				page, err := pager.NextPage(t.Context())
				ok(t, err)
				for _, b := range page.Items {
					got = append(got, decode[int](t, b))
				}
			}
			if one.want == nil {
				slices.Sort(got)
				for n := range 60 {
					one.want = append(one.want, n)
				}
			}
			equal(t, fmt.Sprint(got), fmt.Sprint(one.want), one.query+" over two splits")
		}
	})
}

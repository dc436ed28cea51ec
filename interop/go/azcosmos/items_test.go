package azcosmos

import (
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// everyOperation creates, reads, replaces and deletes an item with the given id and key.
// body returns the item's JSON with the value v.
func everyOperation(t *testing.T, c *azcosmos.ContainerClient, key azcosmos.PartitionKey, id string, body func(v int) []byte) {
	t.Helper()
	type read struct {
		ID string `json:"id"`
		V  int    `json:"v"`
	}
	ctx := t.Context()
	current := func(want int) {
		t.Helper()
		r, err := c.ReadItem(ctx, key, id, nil)
		ok(t, err)
		equal(t, decode[read](t, r.Value), read{id, want}, "the item")
	}
	_, err := c.CreateItem(ctx, key, body(1), nil)
	ok(t, err)
	current(1)
	_, err = c.CreateItem(ctx, key, body(1), nil)
	refused(t, err, 409)
	_, err = c.ReplaceItem(ctx, key, id, body(2), nil)
	ok(t, err)
	current(2)
	echoed, err := c.UpsertItem(ctx, key, body(3), &azcosmos.ItemOptions{EnableContentResponseOnWrite: true})
	ok(t, err)
	equal(t, decode[read](t, echoed.Value), read{id, 3}, "the item that the upsert answers")
	patch := azcosmos.PatchOperations{}
	patch.AppendIncrement("/v", 1)
	_, err = c.PatchItem(ctx, key, id, patch, nil)
	ok(t, err)
	current(4)
	_, err = c.DeleteItem(ctx, key, id, nil)
	ok(t, err)
	_, err = c.ReadItem(ctx, key, id, nil)
	refused(t, err, 404)
	_, err = c.ReplaceItem(ctx, key, id, body(5), nil)
	refused(t, err, 404)
	_, err = c.DeleteItem(ctx, key, id, nil)
	refused(t, err, 404)
}

func TestItemsWithOddIDs(t *testing.T) {
	env.Scenario(t, "items-ids", func(t *testing.T) {
		c := container(t)
		for _, id := range []string{
			"plain", "with spaces", "o 1+%é", "100%", "%20", "a+b&c=d;e,f", "it's", `say "hi"`, "日本", "😀", "(brackets)[x]{y}", "a:b@c$d!e*f", "~-_.", "..a", "a|b^c`d<e>",
			strings.Repeat("x", 255), "ü" + strings.Repeat("é", 100),
		} {
			everyOperation(t, c, pk("p"), id, func(v int) []byte { return item{id, "p", v}.json() })
		}
	})
}

func TestItemsWithOddKeys(t *testing.T) {
	env.Scenario(t, "items-keys", func(t *testing.T) {
		c, ctx := container(t), t.Context()
		for _, k := range []struct {
			key   azcosmos.PartitionKey
			value any
		}{
			{pk("a/b/c"), "a/b/c"},
			{pk(`he said "no"`), `he said "no"`},
			{pk(`back\slash`), `back\slash`},
			{pk("Привет é 日本"), "Привет é 日本"},
			{pk(""), ""},
			{pk(" "), " "},
			{pk("null"), "null"},
			{pk(strings.Repeat("k", 500)), strings.Repeat("k", 500)},
			{azcosmos.NewPartitionKeyNumber(0), 0},
			{azcosmos.NewPartitionKeyNumber(-12.5), -12.5},
			{azcosmos.NewPartitionKeyNumber(1e21), 1e21},
			{azcosmos.NewPartitionKeyNumber(9007199254740991), 9007199254740991},
			{azcosmos.NewPartitionKeyBool(true), true},
			{azcosmos.NewPartitionKeyBool(false), false},
			{azcosmos.NullPartitionKey, nil},
		} {
			everyOperation(t, c, k.key, "same id", func(v int) []byte {
				return encode(map[string]any{"id": "same id", "pk": k.value, "v": v})
			})
		}

		upsert(t, c, item{"1", "left", 1}, item{"1", "right", 2})
		for key, want := range map[string]int{"left": 1, "right": 2} {
			r, err := c.ReadItem(ctx, pk(key), "1", nil)
			ok(t, err)
			equal(t, decode[item](t, r.Value).V, want, "the item under "+key)
		}
		_, err := c.ReadItem(ctx, pk("middle"), "1", nil)
		refused(t, err, 404)
		_, err = c.CreateItem(ctx, pk("left"), item{"2", "right", 1}.json(), nil)
		refused(t, err, 400)
		// A request without a key is one for the items whose key is undefined.
		_, err = c.CreateItem(ctx, azcosmos.NewPartitionKey(), item{"3", "right", 3}.json(), nil)
		refused(t, err, 400)
		_, err = c.CreateItem(ctx, azcosmos.NewPartitionKey(), []byte(`{"id":"4","v":4}`), nil)
		ok(t, err)
		found := queried[item](t, c.NewQueryItemsPager("SELECT * FROM c WHERE NOT IS_DEFINED(c.pk)", azcosmos.NewPartitionKey(), nil))
		equal(t, len(found), 1, "items without a key")
	})
}

func TestItemsUnderAHierarchicalKey(t *testing.T) {
	env.Scenario(t, "items-hierarchical", func(t *testing.T) {
		c, ctx := container(t, "/tenant", "/user", "/session"), t.Context()
		full := func(tenant, user string, session float64) azcosmos.PartitionKey {
			return azcosmos.NewPartitionKey().AppendString(tenant).AppendString(user).AppendNumber(session)
		}
		for _, tenant := range []string{"t/1", "t2"} {
			for _, user := range []string{"ü", "u2"} {
				for session := range 3 {
					everyOperation(t, c, full(tenant, user, float64(session)), "1", func(v int) []byte {
						return encode(map[string]any{"id": "1", "tenant": tenant, "user": user, "session": session, "v": v})
					})
					_, err := c.CreateItem(ctx, full(tenant, user, float64(session)),
						encode(map[string]any{"id": "2", "tenant": tenant, "user": user, "session": session}), nil)
					ok(t, err)
				}
			}
		}
		for _, q := range []struct {
			key  azcosmos.PartitionKey
			want int
		}{
			{full("t/1", "ü", 2), 1},
			{azcosmos.NewPartitionKey().AppendString("t/1").AppendString("ü"), 3},
			{azcosmos.NewPartitionKey().AppendString("t2"), 6},
			{azcosmos.NewPartitionKey(), 12},
			{azcosmos.NewPartitionKey().AppendString("t3"), 0},
		} {
			equal(t, len(queried[map[string]any](t, c.NewQueryItemsPager("SELECT * FROM c", q.key, nil))), q.want, "items found")
		}
		_, err := c.ReadItem(ctx, azcosmos.NewPartitionKey().AppendString("t2"), "2", nil)
		refused(t, err, 400)
	})
}

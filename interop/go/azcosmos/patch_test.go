package azcosmos

import (
	"fmt"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestPatch(t *testing.T) {
	env.Scenario(t, "patch", func(t *testing.T) {
		c, ctx := container(t), t.Context()
		_, err := c.CreateItem(ctx, pk("p"), []byte(`{"id":"1","pk":"p","n":1,"gone":true,"list":["a","c"],"deep":{"x":1}}`), nil)
		ok(t, err)
		patch := azcosmos.PatchOperations{}
		patch.SetCondition("from c where c.n = 1")
		patch.AppendAdd("/added", map[string]any{"k": "v"})
		patch.AppendAdd("/list/1", "b")
		patch.AppendAdd("/list/-", "d")
		patch.AppendSet("/deep/y", 2)
		patch.AppendReplace("/deep/x", "one")
		patch.AppendRemove("/gone")
		patch.AppendIncrement("/n", 41)
		patch.AppendIncrement("/fresh", -3)
		answer, err := c.PatchItem(ctx, pk("p"), "1", patch, &azcosmos.ItemOptions{EnableContentResponseOnWrite: true})
		ok(t, err)
		read, err := c.ReadItem(ctx, pk("p"), "1", nil)
		ok(t, err)
		equal(t, read.ETag, answer.ETag, "ETag of the item that was read")
		for _, body := range [][]byte{answer.Value, read.Value} {
			got := decode[map[string]any](t, body)
			for key, want := range map[string]string{
				"added": "map[k:v]", "list": "[a b c d]", "deep": "map[x:one y:2]", "gone": "<nil>", "n": "42", "fresh": "-3",
			} {
				equal(t, fmt.Sprint(got[key]), want, key)
			}
		}

		unchanged := func(patch azcosmos.PatchOperations, status int) {
			t.Helper()
			_, err := c.PatchItem(ctx, pk("p"), "1", patch, nil)
			refused(t, err, status)
			again, err := c.ReadItem(ctx, pk("p"), "1", nil)
			ok(t, err)
			equal(t, string(again.Value), string(read.Value), "the item after a patch that was refused")
		}
		condition := azcosmos.PatchOperations{}
		condition.SetCondition("from c where c.n = 1")
		condition.AppendSet("/n", 0)
		unchanged(condition, 412)
		missing := azcosmos.PatchOperations{}
		missing.AppendSet("/n", 0)
		missing.AppendReplace("/nowhere", 1)
		unchanged(missing, 400)
		remove := azcosmos.PatchOperations{}
		remove.AppendSet("/n", 0)
		remove.AppendRemove("/nowhere")
		unchanged(remove, 400)
		id := azcosmos.PatchOperations{}
		id.AppendSet("/id", "2")
		unchanged(id, 400)
		key := azcosmos.PatchOperations{}
		key.AppendSet("/pk", "q")
		unchanged(key, 400)
		many := azcosmos.PatchOperations{}
		for range 11 {
			many.AppendIncrement("/n", 1)
		}
		unchanged(many, 400)
		_, err = c.PatchItem(ctx, pk("p"), "not there", condition, nil)
		refused(t, err, 404)
	})
}

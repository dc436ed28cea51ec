package azcosmos

import (
	"fmt"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func statuses(r azcosmos.TransactionalBatchResponse) string {
	var codes []int32
	for _, result := range r.OperationResults {
		codes = append(codes, result.StatusCode)
	}
	return fmt.Sprint(codes)
}

func TestBatchThatSucceeds(t *testing.T) {
	env.Scenario(t, "batch-success", func(t *testing.T) {
		c, ctx := container(t), t.Context()
		upsert(t, c, item{"old", "a/b", 1}, item{"changed", "a/b", 1}, item{"away", "a/b", 1})
		batch := c.NewTransactionalBatch(pk("a/b"))
		batch.CreateItem(item{"new", "a/b", 1}.json(), nil)
		batch.UpsertItem(item{"old", "a/b", 2}.json(), nil)
		batch.UpsertItem(item{"up", "a/b", 1}.json(), nil)
		batch.ReadItem("new", nil)
		batch.ReplaceItem("changed", item{"changed", "a/b", 2}.json(), nil)
		patch := azcosmos.PatchOperations{}
		patch.AppendIncrement("/v", 10)
		batch.PatchItem("changed", patch, nil)
		batch.DeleteItem("away", nil)
		done, err := c.ExecuteTransactionalBatch(ctx, batch, &azcosmos.TransactionalBatchOptions{EnableContentResponseOnWrite: true})
		ok(t, err)
		equal(t, done.Success, true, "success")
		equal(t, statuses(done), "[201 200 201 200 200 200 204]", "statuses")
		equal(t, decode[item](t, done.OperationResults[3].ResourceBody), item{"new", "a/b", 1}, "the item read in the batch")
		for id, want := range map[string]int{"new": 1, "old": 2, "up": 1, "changed": 12} {
			r, err := c.ReadItem(ctx, pk("a/b"), id, nil)
			ok(t, err)
			equal(t, decode[item](t, r.Value).V, want, id)
		}
		_, err = c.ReadItem(ctx, pk("a/b"), "away", nil)
		refused(t, err, 404)
	})
}

func TestBatchThatFailsAppliesNothing(t *testing.T) {
	env.Scenario(t, "batch-failure", func(t *testing.T) {
		c, ctx := container(t), t.Context()
		upsert(t, c, item{"there", "p", 1})
		feed := newFeed(t, c, azcosmos.ChangeFeedOptions{FeedRange: everything()})
		feed.drain(t)
		for name, third := range map[string]struct {
			add  func(b *azcosmos.TransactionalBatch)
			want string
		}{
			"conflict": {func(b *azcosmos.TransactionalBatch) { b.CreateItem(item{"there", "p", 2}.json(), nil) }, "[424 424 409 424]"},
			"missing":  {func(b *azcosmos.TransactionalBatch) { b.DeleteItem("not there", nil) }, "[424 424 404 424]"},
			"precondition": {func(b *azcosmos.TransactionalBatch) {
				older := feed.etagOfNothing()
				b.ReplaceItem("there", item{"there", "p", 2}.json(), &azcosmos.TransactionalBatchItemOptions{IfMatchETag: &older})
			}, "[424 424 412 424]"},
		} {
			batch := c.NewTransactionalBatch(pk("p"))
			batch.CreateItem(item{"b1", "p", 1}.json(), nil)
			batch.UpsertItem(item{"there", "p", 5}.json(), nil)
			third.add(&batch)
			batch.UpsertItem(item{"b2", "p", 1}.json(), nil)
			failed, err := c.ExecuteTransactionalBatch(ctx, batch, nil)
			ok(t, err)
			equal(t, failed.Success, false, "success of "+name)
			equal(t, statuses(failed), third.want, "statuses of "+name)
		}
		for _, id := range []string{"b1", "b2"} {
			_, err := c.ReadItem(ctx, pk("p"), id, nil)
			refused(t, err, 404)
		}
		r, err := c.ReadItem(ctx, pk("p"), "there", nil)
		ok(t, err)
		equal(t, decode[item](t, r.Value).V, 1, "the item that was there")
		equal(t, len(feed.drain(t)), 0, "changes in the feed")
	})
}

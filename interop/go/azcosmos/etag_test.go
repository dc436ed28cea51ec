package azcosmos

import (
	"errors"
	"sync"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

func TestOfTwoWritersOneWins(t *testing.T) {
	env.Scenario(t, "etag-races", func(t *testing.T) {
		c, ctx := container(t), t.Context()
		upsert(t, c, item{"1", "p", 0})
		const rounds, writers = 40, 4
		for round := 1; round <= rounds; round++ {
			read, err := c.ReadItem(ctx, pk("p"), "1", nil)
			ok(t, err)
			results := make([]error, writers)
			var all sync.WaitGroup
			for w := range writers {
				all.Go(func() {
					_, results[w] = c.ReplaceItem(ctx, pk("p"), "1", item{"1", "p", round*writers + w}.json(), &azcosmos.ItemOptions{IfMatchEtag: &read.ETag})
				})
			}
			all.Wait()
			winner := -1
			for w, err := range results {
				var answer *azcore.ResponseError
				switch {
				case err == nil && winner >= 0:
					t.Fatalf("round %d: writers %d and %d both won", round, winner, w)
				case err == nil:
					winner = w
				case !errors.As(err, &answer) || answer.StatusCode != 412:
					t.Fatal(err)
				}
			}
			if winner < 0 {
				t.Fatalf("round %d: nobody won", round)
			}
			after, err := c.ReadItem(ctx, pk("p"), "1", nil)
			ok(t, err)
			equal(t, decode[item](t, after.Value).V, round*writers+winner, "the winner's version")
			if after.ETag == read.ETag {
				t.Fatal("a write did not change the ETag")
			}
			_, err = c.DeleteItem(ctx, pk("p"), "1", &azcosmos.ItemOptions{IfMatchEtag: &read.ETag})
			refused(t, err, 412)
			_, err = c.UpsertItem(ctx, pk("p"), item{"1", "p", -1}.json(), &azcosmos.ItemOptions{IfMatchEtag: &read.ETag})
			refused(t, err, 412)
		}
		anyVersion := azcore.ETagAny
		_, err := c.ReplaceItem(ctx, pk("p"), "1", item{"1", "p", 7}.json(), &azcosmos.ItemOptions{IfMatchEtag: &anyVersion})
		ok(t, err)
	})
}

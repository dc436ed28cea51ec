package cosmos_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
	"github.com/changefeed-go/changefeed/letters/letterstest"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestLettersConform(t *testing.T) { letterstest.RunInBubble(t, newLettersFixture) }

// newLettersFixture returns a letters container of two partitions on a new server.
func newLettersFixture(t *testing.T) letterstest.Fixture {
	s := changefeedtest.NewServer(t)
	a := account(t, s, cosmos.Options{})
	c := changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: "letters", KeyPaths: []string{letters.KeyPath}, Partitions: 2})
	others := 0
	return letterstest.Fixture{
		Container: a.Letters("db", "letters", cosmos.LetterOptions{}),
		Documents: func(ctx context.Context) (n int, err error) {
			stats, err := c.PartitionStats(ctx)
			for _, p := range stats {
				n += int(p.Items)
			}
			return n, err
		},
		Remove: func(ctx context.Context, pk, id string) error {
			_, err := c.Delete(ctx, feed.PartitionKey{pk}, id, storetype.WriteOptions{})
			return err
		},
		Split: func(ctx context.Context) error {
			_, err := c.Split(ctx, "0", "")
			return err
		},
		With: func(paths []string, ttl int) letters.Container {
			others++
			id := fmt.Sprint("other", others)
			changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: id, KeyPaths: paths, DefaultTTL: ttl})
			return a.Letters("db", id, cosmos.LetterOptions{})
		},
	}
}

package protocol_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
)

// identified is a thing in the container with its rid.
type identified struct {
	feed.Source
	lease.Store
	letters.Container
	rid string
}

func (i identified) ContainerID(context.Context) (feed.ContainerID, error) {
	return feed.ContainerID{Account: "shop", RID: i.rid}, nil
}

// Open implements letters.Container.
func (i identified) Open(ctx context.Context, k letters.Key) (letters.Store, error) {
	s, err := memory.NewLetters().Open(ctx, k)
	return identifiedLetters{s, i}, err
}

type identifiedLetters struct {
	letters.Store
	feed.Identifier
}

func TestLettersInTheContainerOfTheSourceOrOfTheLeasesAreRefused(t *testing.T) {
	ctx := t.Context()
	source, leases := identified{rid: "orders"}, identified{rid: "leases"}
	for rid, want := range map[string]string{"orders": "is the monitored container", "leases": "is the lease container", "letters": ""} {
		s, err := protocol.OpenLetters(ctx, identified{rid: rid}, "mailer", source, feed.Identity{}, leases, time.Minute)
		var refused *letters.ContainerError
		switch {
		case want == "" && (err != nil || s == nil):
			t.Errorf("letters in a container of their own: %v", err)
		case want != "" && (!errors.As(err, &refused) || !errors.Is(err, feed.ErrMisconfigured) || !strings.Contains(err.Error(), want)):
			t.Errorf("letters in %s: %v; want an error that says %q", rid, err, want)
		}
	}
}

// The letters of a processor belong to its source, by the account's own name if that is known.
func TestLettersHaveTheIdentityOfTheSource(t *testing.T) {
	ctx := t.Context()
	identity := feed.Identity{AccountHost: "localhost", Database: "shop", Container: "orders", ContainerRID: "rid"}
	for _, c := range []struct {
		source feed.Source
		want   feed.ContainerID
	}{
		{memory.NewSource(memory.Options{}), feed.ContainerID{RID: "rid"}},
		{identified{rid: "orders"}, feed.ContainerID{Account: "shop", RID: "orders"}},
	} {
		container := memory.NewLetters()
		s, err := protocol.OpenLetters(ctx, container, "mailer", c.source, identity, nil, time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		err = s.Put(ctx, letters.Letter{PartitionKey: feed.PartitionKey{"ada"}, Hash: "01", ItemID: "1", LSN: 1, Operation: feed.Delete, State: letters.Dead})
		if err != nil {
			t.Fatal(err)
		}
		for l, err := range s.Read(ctx, letters.Query{}) {
			if err != nil || l.Source != c.want || l.Processor != "mailer" || l.Database != "shop" || l.Container != "orders" {
				t.Errorf("the letter is of %+v, %s, %s/%s; want %+v", l.Source, l.Processor, l.Database, l.Container, c.want)
			}
		}
	}
}

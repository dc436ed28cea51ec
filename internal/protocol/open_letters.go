package protocol

import (
	"context"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
)

// OpenLetters opens the letters of a processor, whose source and leases [Open] has bound. timeout
// limits all requests together. It returns an *[OpenError], which wraps a
// *[letters.ContainerError] if the letters are in the container of the source or of the leases:
// each letter would then be a change to deliver, or a host would list it with the leases.
func OpenLetters(
	ctx context.Context, container letters.Container, processor string, source feed.Source, identity feed.Identity, leases lease.Store, timeout time.Duration,
) (letters.Store, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	store, err := openLetters(ctx, container, processor, source, identity, leases)
	if err != nil {
		return nil, &OpenError{Op: "open the letters container", Err: err}
	}
	return store, nil
}

func openLetters(
	ctx context.Context, container letters.Container, processor string, source feed.Source, identity feed.Identity, leases lease.Store,
) (letters.Store, error) {
	key := letters.Key{
		Processor: processor, Source: feed.ContainerID{RID: identity.ContainerRID}, Database: identity.Database, Container: identity.Container,
	}
	monitored, can := source.(feed.Identifier)
	if can {
		var err error
		if key.Source, err = monitored.ContainerID(ctx); err != nil {
			return nil, fmt.Errorf("identify the monitored container: %w", err)
		}
	}
	store, err := container.Open(ctx, key)
	if err != nil {
		return nil, err
	}
	opened, _ := store.(feed.Identifier)
	leased, _ := leases.(feed.Identifier)
	for _, other := range []struct {
		what string
		of   feed.Identifier
	}{{"monitored", monitored}, {"lease", leased}} {
		same, err := SameContainer(ctx, other.of, opened)
		if err != nil {
			return nil, err
		}
		if same {
			return nil, &letters.ContainerError{
				Found:  fmt.Sprintf("the letters container is the %s container", other.what),
				Remedy: "use a container of its own for the letters",
			}
		}
	}
	return store, nil
}

package protocol

import (
	"context"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// ContainersError reports that a source and a lease container cannot be used together.
type ContainersError struct {
	// Problem is the end of a sentence about the lease container: what is wrong, and the
	// remedy.
	Problem string
}

func (e *ContainersError) Error() string { return "the lease container " + e.Problem }

// CheckDialects returns a *[ContainersError] if source reads for another dialect than that
// of leases. A source whose reads depend on the dialect has the method Dialect, as those of
// Azure Cosmos DB have. Any other source goes with every dialect.
func CheckDialects(source feed.Source, leases lease.Container) error {
	s, depends := source.(interface{ Dialect() lease.Dialect })
	if !depends || s.Dialect() == leases.Dialect() {
		return nil
	}
	return &ContainersError{fmt.Sprintf("has leases in %s, but Source reads for %s; give both the same dialect", leases.Dialect(), s.Dialect())}
}

// OpenError reports that a request of [Open] failed.
type OpenError struct {
	// Op names what failed, for messages. AtSource reports whether it was a request to the
	// source, and not to the lease container.
	Op       string
	AtSource bool
	Err      error
}

func (e *OpenError) Error() string { return e.Op + ": " + e.Err.Error() }

// Unwrap returns Err.
func (e *OpenError) Unwrap() error { return e.Err }

// Open binds a processor to its containers. It identifies the container of source, opens
// the leases of key for it, and returns both. timeout limits each of these two
// steps. Open returns an *[OpenError] if one of them fails. It returns a *[ContainersError]
// if leases is the container of source, because each write of a lease would then be a
// change to deliver, and the checkpoint after it another write, without end.
func Open(
	ctx context.Context, source feed.Source, leases lease.Container, key lease.Key, timeout time.Duration,
) (lease.Store, feed.Identity, error) {
	limited, cancel := context.WithTimeout(ctx, timeout)
	identity, err := source.Identity(limited)
	cancel()
	if err != nil {
		return nil, identity, &OpenError{Op: "identify the monitored container", AtSource: true, Err: err}
	}
	key.Identity = identity
	limited, cancel = context.WithTimeout(ctx, timeout)
	defer cancel()
	store, err := leases.Open(limited, key)
	same := false
	if err == nil {
		monitored, _ := source.(feed.Identifier)
		opened, _ := store.(feed.Identifier)
		same, err = SameContainer(limited, monitored, opened)
	}
	switch {
	case err != nil:
		return nil, identity, &OpenError{Op: "open the lease container", Err: err}
	case same:
		return nil, identity, &ContainersError{fmt.Sprintf("is the monitored container, %s of database %s: each lease write would be a change of its feed; "+
			"use another container for the leases", identity.Container, identity.Database)}
	}
	return store, identity, nil
}

// SameContainer reports whether a and b use the same container. It returns false if one of them
// is nil, as for a source or a store that cannot identify its container, and the error of
// ContainerID.
func SameContainer(ctx context.Context, a, b feed.Identifier) (bool, error) {
	if a == nil || b == nil {
		return false, nil
	}
	id, err := a.ContainerID(ctx)
	if err != nil {
		return false, fmt.Errorf("identify the container: %w", err)
	}
	otherID, err := b.ContainerID(ctx)
	if err != nil {
		return false, fmt.Errorf("identify the container: %w", err)
	}
	return id == otherID, nil
}

package protocol

import (
	"context"
	"fmt"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// MonitoredError reports that the lease container is the monitored container. Each write of a
// lease would be a change to deliver, and the checkpoint after that change another write,
// without end.
type MonitoredError struct{ Database, Container string }

func (e *MonitoredError) Error() string {
	return fmt.Sprintf("the lease container is the monitored container, %s of database %s", e.Container, e.Database)
}

// OpenLeases opens the leases of key for a source whose identity is in key. It returns a
// *[MonitoredError] if both are one container, and the errors of [lease.Container].
func OpenLeases(ctx context.Context, source feed.Source, leases lease.Container, key lease.Key) (lease.Store, error) {
	store, err := leases.Open(ctx, key)
	if err != nil {
		return nil, err
	}
	switch same, err := SameContainer(ctx, source, store); {
	case err != nil:
		return nil, err
	case same:
		return nil, &MonitoredError{key.Identity.Database, key.Identity.Container}
	}
	return store, nil
}

// SameContainer reports whether a and b, sources or stores of leases, use the same container.
// It returns false if one of them is not a [feed.Identifier]. It returns the error of ContainerID.
func SameContainer(ctx context.Context, a, b any) (bool, error) {
	one, ok := a.(feed.Identifier)
	if !ok {
		return false, nil
	}
	other, ok := b.(feed.Identifier)
	if !ok {
		return false, nil
	}
	id, err := one.ContainerID(ctx)
	if err != nil {
		return false, fmt.Errorf("identify the container: %w", err)
	}
	otherID, err := other.ContainerID(ctx)
	if err != nil {
		return false, fmt.Errorf("identify the container: %w", err)
	}
	return id == otherID, nil
}

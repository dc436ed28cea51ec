package feed

import (
	"context"
	"fmt"
)

// ContainerID identifies a container, whichever endpoint of its account is used. Two
// ContainerIDs are equal if and only if they identify the same container.
type ContainerID struct {
	// Account is the engine's own name of the account. It is the same at every endpoint.
	Account string
	// RID is the engine's own id of the container (_rid). Containers of different
	// accounts may have the same RID.
	RID string
}

// Identifier is an optional interface of a [Source] and of a lease store. It returns the
// id of the container that is read or written. Without it, a processor cannot detect that
// its leases are in the container that it monitors.
type Identifier interface {
	// ContainerID returns the id of the container. It may send a request to the engine.
	// It is safe for concurrent use.
	ContainerID(ctx context.Context) (ContainerID, error)
}

// SameContainer reports whether a and b use the same container. It returns false if one
// of them is not an [Identifier]. It returns the error of ContainerID.
func SameContainer(ctx context.Context, a, b any) (bool, error) {
	one, ok := a.(Identifier)
	if !ok {
		return false, nil
	}
	other, ok := b.(Identifier)
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

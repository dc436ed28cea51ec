package feed

import (
	"context"
	"fmt"
)

// ContainerID identifies a container under all names by which its account is reached. Two of them are of one
// container if and only if they are equal.
type ContainerID struct {
	// Account is the name that the engine itself gives the account: the same at each of its endpoints.
	Account string
	// RID is the engine's own id of the container (_rid). Other accounts may have a container of that id.
	RID string
}

// Identifier is an optional interface of a [Source], and of a store of leases, that knows which container it reads
// or writes. Without it a processor does not notice that its leases are in the container that it monitors.
type Identifier interface {
	// ContainerID returns the id of the container. It may ask the engine. It is safe for concurrent use.
	ContainerID(ctx context.Context) (ContainerID, error)
}

// SameContainer reports whether a and b are in one container. It is false where one of them is not an [Identifier].
// An error is that of ContainerID.
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

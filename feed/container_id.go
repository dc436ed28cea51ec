package feed

import "context"

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

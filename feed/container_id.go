package feed

import "context"

// ContainerID identifies a container, whichever of its account's endpoints is used. Two
// ContainerIDs are equal exactly if they mean the same container, which can't be said of
// two [Identity] values.
type ContainerID struct {
	// Account is the engine's own name for the account, the same at every endpoint.
	Account string
	// RID is the engine's own id for the container (_rid), which a container in another
	// account may have, too.
	RID string
}

// Identifier is what a Source and a lease store should implement, too, if they can,
// because a processor compares the two ids to refuse leases in the container that it
// monitors. Without it, nobody notices.
type Identifier interface {
	// ContainerID returns the id of the container that is read or written. It may send a
	// request to the engine, and is safe for concurrent use.
	ContainerID(ctx context.Context) (ContainerID, error)
}

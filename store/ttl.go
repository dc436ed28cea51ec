package store

// Times to live, in seconds, of containers (DefaultTTL) and items (ttl).
const (
	// ttlOff: of a container, its items' ttl is ignored; of an item, it has none.
	ttlOff = 0
	// ttlNever: of a container, items expire by their own ttl alone; of an item, never.
	ttlNever = -1
)

// expiry returns the second (of the store's clock) from which an item written at
// ts is expired; ok is false when it never is. container and item are times to live.
func expiry(ts int64, container, item int32) (at int64, ok bool) { panic("to do") }

// expired reports whether an item is expired at second now.
func expired(ts int64, container, item int32, now int64) bool { panic("to do") }

// checkTTL judges a container's DefaultTTL (BadTTL).
func checkTTL(seconds int64) error { panic("to do") }

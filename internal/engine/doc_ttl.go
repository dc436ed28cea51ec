package engine

import "math"

// Times to live, in seconds, of containers (DefaultTTL) and items (ttl).
const (
	// ttlOff says of a container that its items' own ttl is ignored, and of an
	// item that it has none.
	ttlOff = 0
	// ttlNever says of a container that items expire by their own ttl alone,
	// and of an item that it never expires.
	ttlNever = -1
)

// expiry returns the second of the store's clock from which an item written in
// second ts is expired; ok is false when it never is. container and item are
// times to live. An item's own wins over its container's, unless that is off.
func expiry(ts int64, container, item int32) (at int64, ok bool) {
	ttl := item
	if ttl == ttlOff {
		ttl = container
	}
	if container == ttlOff || ttl == ttlNever {
		return 0, false
	}
	return ts + int64(ttl), true
}

// expired reports whether an item is expired in second now of the store's clock.
func expired(ts int64, container, item int32, now int64) bool {
	at, ok := expiry(ts, container, item)
	return ok && at <= now
}

// checkTTL judges a container's DefaultTTL: off, never, or seconds.
func checkTTL(seconds int64) error {
	if seconds < ttlNever || seconds > math.MaxInt32 {
		return badRequest(BadTTL, "the default time to live is %d; it is 0 for off, -1 for on without a default, or from 1 to %d seconds",
			seconds, math.MaxInt32)
	}
	return nil
}

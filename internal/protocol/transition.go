package protocol

import (
	"maps"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// The transitions return the document to write. The caller writes it by compare-and-set,
// and only if the protocol allows the write. Package internal/balance decides on an
// acquire; every other write requires that the lease is trusted. No transition changes l
// or its map.

// Acquired returns l with the given owner. Nobody wants it any longer.
func Acquired(l lease.Lease, owner string) lease.Lease {
	l = without(l, lease.PropertyWanted)
	l.Owner = owner
	return l
}

// Wanted returns l as a lease that owner wants. It affects no host's trust. The holder hands
// the lease over after its current batch.
func Wanted(l lease.Lease, owner string) lease.Lease {
	return with(l, lease.PropertyWanted, owner)
}

// At returns l with the position c. A renewal and a checkpoint are both this write. If c
// is empty, l keeps its position.
func At(l lease.Lease, c feed.Continuation) lease.Lease {
	if c != "" {
		l.Continuation = c
	}
	return l
}

// Released returns l without an owner, at position c. If c is empty, l keeps its
// position. It stays wanted, which reserves it for the host that wants it.
func Released(l lease.Lease, c feed.Continuation) lease.Lease {
	l = At(l, c)
	l.Owner = ""
	return l
}

// PutBack returns the document to create if l was deleted while its owner still trusts
// it. It keeps the owner and the durable position, but is no longer wanted.
func PutBack(l lease.Lease) lease.Lease {
	l = without(l, lease.PropertyWanted)
	l.ETag = ""
	return l
}

// StartingAt returns l with s stored in it. Now cannot be stored and changes nothing. The
// caller resolves it to a continuation first.
func StartingAt(l lease.Lease, s feed.Start) lease.Lease {
	switch s.Kind() {
	case feed.StartContinuation:
		l.Continuation = s.Continuation()
	case feed.StartBeginning, feed.StartTime:
		l = with(l, lease.PropertyStart, s.String())
	case feed.StartNow:
	}
	return l
}

// Bound returns the time before which changes are not delivered, in UTC and whole
// seconds. It returns the zero time if there is no bound. A lease gets a bound if the
// source refuses the configured start time. The lease is then read from the beginning,
// and its positions alone do not show which changes are too old. A text that is not a
// time counts as absent.
func Bound(l lease.Lease) time.Time {
	t, err := time.Parse(time.RFC3339, l.Properties[lease.PropertyBound])
	if err != nil {
		return time.Time{}
	}
	return feed.At(t).Time()
}

// Bounded returns l with the bound t, or without a bound if t is zero.
func Bounded(l lease.Lease, t time.Time) lease.Lease {
	if t.IsZero() {
		return without(l, lease.PropertyBound)
	}
	text := feed.At(t).String()
	if l.Properties[lease.PropertyBound] == text {
		return l
	}
	return with(l, lease.PropertyBound, text)
}

// with returns l with the property key set to value. It copies the map, because other
// values share it.
func with(l lease.Lease, key, value string) lease.Lease {
	properties := make(map[string]string, len(l.Properties)+1)
	maps.Copy(properties, l.Properties)
	properties[key] = value
	l.Properties = properties
	return l
}

// without returns l without the property key. It copies the map, because other values
// share it.
func without(l lease.Lease, key string) lease.Lease {
	if _, ok := l.Properties[key]; !ok {
		return l
	}
	if len(l.Properties) == 1 {
		l.Properties = nil
		return l
	}
	properties := maps.Clone(l.Properties)
	delete(properties, key)
	l.Properties = properties
	return l
}

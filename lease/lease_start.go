package lease

import (
	"maps"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

const startBeginning = "beginning"

// Start returns the start of the next read of the lease. The read starts after the
// lease's continuation. If there is none, it starts at the start in the lease's
// properties. If that is missing too, Start returns configured. A start that cannot be
// parsed, because another implementation wrote it, counts as absent.
//
// In [JavaLatestVersion] the document contains a start beside the position. If that start
// is a time, Start returns the position together with the time; see [feed.AfterSince].
func (l Lease) Start(configured feed.Start) feed.Start {
	written, known := stateStart(l.document.state)
	if l.Continuation != "" {
		if known && written.Kind() == feed.StartTime {
			return feed.AfterSince(l.Continuation, written.Time())
		}
		return feed.After(l.Continuation)
	}
	if known {
		return written
	}
	switch s := l.Properties[PropertyStart]; s {
	case "":
	case startBeginning:
		return feed.Beginning()
	default:
		if t, err := time.Parse(time.RFC3339, s); err == nil {
			return feed.At(t)
		}
	}
	return configured
}

// StartingAt returns l with s stored in it. Now cannot be stored and changes nothing. The
// caller resolves it to a continuation first.
func (l Lease) StartingAt(s feed.Start) Lease {
	switch s.Kind() {
	case feed.StartContinuation:
		l.Continuation = s.Continuation()
	case feed.StartBeginning:
		l = l.with(PropertyStart, startBeginning)
	case feed.StartTime:
		l = l.with(PropertyStart, s.Time().Format(time.RFC3339))
	case feed.StartNow:
	}
	return l
}

// Bound returns the time before which changes are not delivered, in UTC and whole
// seconds. It returns the zero time if there is no bound. A lease gets a bound if the
// source refuses the configured start time. The lease is then read from the beginning,
// and its positions alone do not show which changes are too old. A text that is not a
// time counts as absent.
func (l Lease) Bound() time.Time {
	t, err := time.Parse(time.RFC3339, l.Properties[PropertyBound])
	if err != nil {
		return time.Time{}
	}
	return feed.At(t).Time()
}

// Bounded returns l with the bound t, or without a bound if t is zero.
func (l Lease) Bounded(t time.Time) Lease {
	if t.IsZero() {
		return l.without(PropertyBound)
	}
	text := feed.At(t).String()
	if l.Properties[PropertyBound] == text {
		return l
	}
	return l.with(PropertyBound, text)
}

// with returns l with the property key set to value. It copies the map, because other
// values share it.
func (l Lease) with(key, value string) Lease {
	properties := make(map[string]string, len(l.Properties)+1)
	maps.Copy(properties, l.Properties)
	properties[key] = value
	l.Properties = properties
	return l
}

// without returns l without the property key. It copies the map, because other values
// share it.
func (l Lease) without(key string) Lease {
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

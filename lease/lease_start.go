package lease

import (
	"maps"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

const startBeginning = "beginning"

// Start is where to read the lease from: behind its continuation; without one
// from the start in its properties; without that from configured. What can't be
// understood there (another implementation wrote it) counts as absent. In
// [JavaLatestVersion] a start is in the document beside the position, and one at a
// time goes along with it.
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

// StartingAt is l with s stored in it. Now can't be stored: it is resolved to a
// continuation first, and changes nothing here.
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
// seconds. The zero time means that there is no bound. A lease gets one when the source
// refuses the start time that the user has configured: it is then read from the
// beginning, and its positions alone don't tell which changes are too old. A text that
// is not a time counts as absent.
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

// with is l with one property more; without, with one less. The map is copied,
// because other values share it.
func (l Lease) with(key, value string) Lease {
	properties := make(map[string]string, len(l.Properties)+1)
	maps.Copy(properties, l.Properties)
	properties[key] = value
	l.Properties = properties
	return l
}

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

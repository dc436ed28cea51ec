package lease

import (
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

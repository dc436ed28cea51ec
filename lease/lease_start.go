package lease

import (
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

const startBeginning = "beginning"

// Start returns where the lease's next read starts: after its continuation, or else at
// the start in its properties, or else at configured. A start that cannot be parsed,
// because another implementation wrote it, counts as absent.
//
// In [JavaLatestVersion] the document has a start beside the position. If that is a time,
// Start returns the two together; see [feed.AfterSince].
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

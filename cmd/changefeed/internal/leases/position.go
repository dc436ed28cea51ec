package leases

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// lsnOf returns the LSN of a continuation. On Azure Cosmos DB and on the embedded store
// it is a quoted number. ok is false for other continuations.
func lsnOf(c feed.Continuation) (lsn int64, ok bool) {
	text := strings.TrimSuffix(strings.TrimPrefix(string(c), `"`), `"`)
	if len(text) != len(c)-2 {
		return 0, false
	}
	lsn, err := strconv.ParseInt(text, 10, 64)
	return lsn, err == nil
}

// Position returns the text that describes where reading of a lease resumes.
func Position(l lease.Lease) string { return PositionOf(l.Start(feed.Now())) }

// PositionOf returns the text that describes where reading resumes. That is start, which is
// now if the document of the lease has neither a position nor a start.
func PositionOf(start feed.Start) string {
	switch start.Kind() {
	case feed.StartBeginning:
		return "beginning"
	case feed.StartTime:
		return start.Time().Format(time.RFC3339)
	case feed.StartContinuation:
		if lsn, ok := lsnOf(start.Continuation()); ok {
			return view.LSN(lsn)
		}
		return shortened(string(start.Continuation()))
	case feed.StartNow:
	}
	return "the hosts' start"
}

// maxPosition is the length of a position in a text. It is that of a time.
const maxPosition = len("2026-11-23T15:11:28Z")

func shortened(s string) string {
	if len(s) <= maxPosition {
		return s
	}
	return s[:maxPosition-len("...")] + "..."
}

var errNotComparable = errors.New("cannot be compared")

// older compares the positions of two leases that share keys. Their partitions are
// related, so their LSNs can be compared. It returns -1 if a is older, 1 if b is older,
// and 0 if they are equal.
func older(a, b lease.Lease) (int, error) {
	if a.Continuation == b.Continuation && (a.Continuation != "" || a.Properties[lease.PropertyStart] == b.Properties[lease.PropertyStart]) {
		return 0, nil
	}
	la, okA := lsnOf(a.Continuation)
	lb, okB := lsnOf(b.Continuation)
	if okA && okB {
		return cmp.Compare(la, lb), nil
	}
	sa, sb := a.Start(feed.Now()), b.Start(feed.Now())
	switch {
	case sa.Kind() == feed.StartBeginning:
		return -1, nil
	case sb.Kind() == feed.StartBeginning:
		return 1, nil
	case sa.Kind() == feed.StartTime && sb.Kind() == feed.StartTime:
		return sa.Time().Compare(sb.Time()), nil
	}
	return 0, fmt.Errorf("the positions of %s (%s) and %s (%s) %w; set one with `changefeed leases reset`",
		a.Token, Position(a), b.Token, Position(b), errNotComparable)
}

// startOf returns the position of l as the start of another lease. ok is false if only
// the hosts' configuration determines it.
func startOf(l lease.Lease) (start feed.Start, ok bool) {
	start = l.Start(feed.Now())
	return start, start.Kind() != feed.StartNow
}

// repositioned returns l as a free lease that starts at start, without the time before
// which changes were dropped. If start is now, the position is set later.
func (s Survey) repositioned(l lease.Lease, start feed.Start) lease.Lease {
	if s.Codec.Dialect() == lease.JavaLatestVersion && start.Kind() != feed.StartContinuation {
		l = stripped(l) // in such a document, the start would override start
	}
	l = protocol.Bounded(protocol.Released(l, ""), time.Time{})
	l.Continuation = ""
	return protocol.StartingAt(l, start)
}

// stripped returns a lease with only the fields of l that all dialects have. In Java's
// second dialect the document also wraps mode and start together with the position.
// Without this function they would not change.
func stripped(l lease.Lease) lease.Lease {
	return lease.Lease{
		ID: l.ID, Token: l.Token, PartitionID: l.PartitionID, Range: l.Range, Owner: l.Owner, Continuation: l.Continuation,
		Mode: l.Mode, Properties: l.Properties, Timestamp: l.Timestamp, Modified: l.Modified, ETag: l.ETag,
	}
}

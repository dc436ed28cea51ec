package leases

import (
	"context"
	"errors"
	"net/http"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
)

// TryPositions sends a read from the position of every lease and sets Survey.Refused. A
// position may be text that the source cannot read, or lie before or after what the feed still
// has. Another failure of a read says nothing about the position: the mode of the lease, for
// instance, may be one that the container does not have.
func (c *Container) TryPositions(ctx context.Context, s *Survey) {
	s.Refused = map[string]error{}
	for _, i := range s.Items {
		if i.Continuation == "" {
			continue
		}
		r := protocol.ReadOf(i.Lease, i.Mode, feed.After(i.Continuation))
		r.MaxItems = 1
		_, err := c.Source.Read(ctx, r)
		lsn, plain := lsnOf(i.Continuation)
		if lost, ok := errors.AsType[*feed.HistoryLostError](err); ok {
			s.Refused[i.Token] = lost
		} else if (!plain || lsn < 0) && connect.Status(err) == http.StatusBadRequest {
			s.Refused[i.Token] = connect.Plain(err)
		}
	}
}

package server

import (
	"net/http"
	"strings"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// A session token says which writes a client has seen. Reads and queries of documents refuse
// a token that is ahead of the partition that serves them, as the service does for a replica
// that lags. Here it means that the store is older than the client's writes, for instance a
// restored copy, or that the token is of another account. The change feed ignores tokens: the
// position of a read already says what the feed must have.

// errSession is the answer to a read whose session token is ahead of the partition.
var errSession = refuse(byBackend, http.StatusNotFound, wire.SubReadSessionNotAvailable,
	"The read session is not available for the input session token.")

// checkSession returns errSession if the request's session token is ahead of one of the
// partitions that have served it. It ignores the parts of the token that name other
// partitions, such as parents and partitions of a deleted container. A consistency level
// weaker than Session has no sessions.
func (x *request) checkSession(served ...engine.PartitionEnd) error {
	token := x.header(wire.HeaderSessionToken)
	if token == "" {
		return nil
	}
	if level := x.header(wire.HeaderConsistency); level != "" && !strings.EqualFold(level, "Session") {
		return nil
	}
	for _, p := range served {
		// Answers about databases and new containers have the LSN catalogLSN, which a client
		// may take for one of a container without items.
		if lsn, ok := wire.SessionLSN(token, p.ID); ok && lsn > max(p.End, catalogLSN) {
			return errSession
		}
	}
	return nil
}

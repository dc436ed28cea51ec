package server

import (
	"net/http"
	"strings"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// The service sends the names of its headers in lower case, and .NET's SDK compares some of
// them exactly. net/http sends each name as it is in the map of an answer's headers, where
// names are usually capitalised. So answers over HTTP/1 have lower case in that map. HTTP/2
// sends lower case anyhow, and callers in the same process read capitalised names.

// lowerNames has the usual headers of answers, so that their names cost no memory.
var lowerNames = lowered(wire.HeaderActivityID, wire.HeaderAltContentPath, wire.HeaderContentPath, wire.HeaderContinuation, wire.HeaderGatewayVersion,
	wire.HeaderItemCount, wire.HeaderLSN, wire.HeaderPartitionID, wire.HeaderRequestCharge, wire.HeaderRetryAfter, wire.HeaderServiceVersion,
	wire.HeaderSessionToken, wire.HeaderSubStatus, "Content-Type", "Date", "Etag")

func lowered(names ...string) map[string]string {
	m := map[string]string{}
	for _, name := range names {
		m[name] = strings.ToLower(name)
	}
	return m
}

// lowerName returns the name of a header in lower case, unless net/http frames the message by
// the header.
func lowerName(name string) string {
	if lower, known := lowerNames[name]; known {
		return lower
	}
	switch name {
	case "Connection", "Content-Length", "Trailer", "Transfer-Encoding":
		return name
	}
	return strings.ToLower(name)
}

// lowerHeader renames the headers of an answer to lower case.
func lowerHeader(h http.Header) {
	for name, values := range h {
		if lower := lowerName(name); lower != name {
			h[lower] = values
			delete(h, name)
		}
	}
	// net/http adds both unless the map has them under these names. Without values they are not
	// sent.
	h["Date"], h["Content-Type"] = nil, nil
}

// isHTTP1 reports whether a request came over an HTTP/1 connection of net/http.
func isHTTP1(r *http.Request) bool {
	return r.ProtoMajor == 1 && r.Context().Value(http.ServerContextKey) != nil
}

package server

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// These are the limits of discardBody. maxDiscarded is the length of the longest body
// that it reads, in bytes.
const (
	maxDiscarded = 64 << 20
	// discardTime limits the time for the whole body, and discardSilence the time without
	// any new byte.
	discardTime    = 30 * time.Second
	discardSilence = 5 * time.Second
)

// discardBody reads the rest of the body before the request is refused. Most clients read
// the answer only after they have written the whole body. If the server did not read it,
// they would find a broken connection instead of the answer. A client that waits for "100
// Continue" has sent nothing, and sends nothing after a refusal. A body longer than
// maxDiscarded is not read, so its client may find a broken connection.
func (x *request) discardBody() {
	if x.bodyRead || x.r.ContentLength == 0 || x.r.ContentLength > maxDiscarded ||
		x.received == 0 && strings.EqualFold(x.header("Expect"), "100-continue") {
		return
	}
	x.bodyRead = true
	x.memory.release(ofBodies)
	c := http.NewResponseController(x.w)
	end := time.Now().Add(discardTime)
	buf := discardBuffers.Get().(*[discardBuffer]byte) //nolint:errcheck // the pool holds nothing else
	defer discardBuffers.Put(buf)
	for dropped := 0; dropped < maxDiscarded; {
		now := time.Now()
		if !now.Before(end) {
			return
		}
		// SetReadDeadline fails if the request has no connection, or if the connection
		// has ended. In the second case, the following Read fails, too.
		_ = c.SetReadDeadline(now.Add(min(discardSilence, end.Sub(now))))
		n, err := x.r.Body.Read(buf[:])
		dropped += n
		x.received += int64(n)
		if errors.Is(err, io.EOF) {
			_ = c.SetReadDeadline(time.Time{})
		}
		if err != nil {
			return
		}
	}
}

// discardBuffer is the size of the buffer into which discardBody reads, in bytes.
const discardBuffer = 32 << 10

var discardBuffers = sync.Pool{New: func() any { return new([discardBuffer]byte) }}

// body reads the whole body of the request. It returns an error if the body is longer
// than limit bytes.
func (x *request) body(limit int64) ([]byte, error) { return x.bodyIn(nil, limit) }

// bodyIn is like body, but reads into buf if buf is large enough. It counts the bytes
// against the memory limit before it allocates them.
func (x *request) bodyIn(buf []byte, limit int64) ([]byte, error) {
	if encoding := x.header("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		return nil, failure(http.StatusUnsupportedMediaType, wire.SubNone,
			"a body with Content-Encoding %.40q is not supported by this server; send it without compression", encoding)
	}
	if x.r.ContentLength > limit {
		return nil, &tooLarge
	}
	// The first buffer has the size in Content-Length, up to 64 KB. It grows only when
	// bytes have arrived. So a client that announces a large body and sends nothing costs
	// little memory.
	first := int(min(max(x.r.ContentLength, 0), 64<<10) + 512)
	if err := x.memory.grow(ofBodies, bodyFactor*int64(max(first, cap(buf)))); err != nil {
		return nil, err
	}
	buf = slices.Grow(buf[:0], first)
	if x.conn != nil {
		x.conn.begin(phaseBody)
		defer x.conn.begin(phaseWork)
	}
	for {
		if len(buf) == cap(buf) {
			more := min(max(cap(buf), 512), int(limit)+512-cap(buf))
			if announced := int(x.r.ContentLength) + 1 - cap(buf); announced > 0 {
				more = min(more, announced)
			}
			if err := x.memory.grow(ofBodies, bodyFactor*int64(more)); err != nil {
				return nil, err
			}
			buf = slices.Grow(buf, more)
		}
		n, err := x.r.Body.Read(buf[len(buf):cap(buf)])
		buf = buf[:len(buf)+n]
		x.received = max(x.received, int64(len(buf))) // a delayed request reads its body a second time, from memory
		switch {
		case int64(len(buf)) > limit:
			return nil, &tooLarge
		case errors.Is(err, io.EOF):
			x.bodyRead = true
			return buf, checkText(buf)
		case err != nil:
			x.bodyRead = true // no more can be read
			return nil, badRequest("cannot read the body of the request: %v", err)
		}
	}
}

// cosmosBinary is the first byte of a document in the service's binary encoding of JSON.
// No JSON text begins with this byte.
const cosmosBinary = 0x80

// checkText returns an error if a body is in the service's binary encoding. .NET's SDK
// sends it if its user enables it. The SDK accepts answers in JSON in any case.
func checkText(body []byte) error {
	if len(body) > 0 && body[0] == cosmosBinary {
		return badRequest("a body in CosmosBinary, the binary form of JSON, is not supported by this server; start the client without " +
			"AZURE_COSMOS_BINARY_ENCODING_ENABLED=true in its environment")
	}
	return nil
}

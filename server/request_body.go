package server

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Bounds of what is read of a body that is not wanted.
const (
	maxDrained = 64 << 20
	// drainTime bounds the whole, and drainSilence the wait for more of it.
	drainTime    = 30 * time.Second
	drainSilence = 5 * time.Second
)

// drain reads the rest of the request's body and drops it, before the request is refused. Most clients read the answer only
// after they have written all of the body; without this, they find a broken connection. A client that waits for
// "100 Continue" has sent nothing and sends nothing after a refusal. A body that is known to be longer
// than maxDrained is left alone: its client can't be helped.
func (x *exchange) drain() {
	if x.drained || x.r.ContentLength == 0 || x.r.ContentLength > maxDrained ||
		x.received == 0 && strings.EqualFold(x.header("Expect"), "100-continue") {
		return
	}
	x.drained = true
	x.claim.release(ofBodies)
	c := http.NewResponseController(x.w)
	end := time.Now().Add(drainTime)
	buf, _ := drainBuffers.Get().(*[drainBuffer]byte)
	if buf == nil {
		buf = new([drainBuffer]byte)
	}
	defer drainBuffers.Put(buf)
	for dropped := 0; dropped < maxDrained; {
		now := time.Now()
		if !now.Before(end) {
			return
		}
		// An error is the connection's end, which Read reports too, or the lack of a connection.
		_ = c.SetReadDeadline(earlier(end, now.Add(drainSilence)))
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

// drainBuffer is the memory, in bytes, that drain takes.
const drainBuffer = 32 << 10

var drainBuffers sync.Pool // *[drainBuffer]byte

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

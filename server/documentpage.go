package server

import (
	"net/http"
	"strconv"
	"sync"
)

// A page of documents, of a feed or a query, is written from the bytes that the store or the query
// has: nothing is encoded. Its length is counted first, so that the answer has a Content-Length, and it is
// written through a buffer of fixed size, since a write for each document would be a system call for a few of them.

// pieces are the parts of a page's documents, commas between them included. It is called twice and gives the same both times.
// A part is used before the next one is asked for.
type pieces func(emit func([]byte))

// sendText answers with count documents that are one text already, with the commas between them. It is written as it is, which needs no
// copy where it is large. written is false when the client is gone; the connection may be using the text yet.
func (x *exchange) sendText(count int, documents []byte) (written bool) {
	head, tail := x.frame(count)
	x.count = count
	x.start(http.StatusOK, len(head)+len(documents)+len(tail))
	for _, part := range [][]byte{[]byte(head), documents, []byte(tail)} {
		if _, err := x.w.Write(part); err != nil {
			return false
		}
	}
	return true
}

// frame is what stands around the documents of a page.
func (x *exchange) frame(count int) (head, tail string) {
	return `{"_rid":"` + x.content + `","Documents":[`, `],"_count":` + strconv.Itoa(count) + `}`
}

// sendPage answers with count documents. It takes the rest of the answer's headers from x.
func (x *exchange) sendPage(count int, documents pieces) error {
	head, tail := x.frame(count)
	size := len(head) + len(tail)
	documents(func(b []byte) { size += len(b) })
	x.count = count
	x.start(http.StatusOK, size)
	p := pageWriter{w: x.w, buf: pageBuffers.Get().(*[pageBufferSize]byte)} //nolint:errcheck // the pool holds nothing else
	defer pageBuffers.Put(p.buf)
	p.write([]byte(head))
	documents(p.write)
	p.write([]byte(tail))
	p.flush()
	return nil
}

// sendNoPage answers that there is nothing new: 304, with the position and a count, which SDKs read here too.
func (x *exchange) sendNoPage() error {
	x.count = 0
	return x.sendEmpty(http.StatusNotModified)
}

// pageBufferSize is how much of a page is written at once.
const pageBufferSize = 64 << 10

var pageBuffers = sync.Pool{New: func() any { return new([pageBufferSize]byte) }}

// pageWriter gathers small parts into large writes. What goes wrong is the connection's end, and nobody is left to
// be told: the rest of the page is dropped.
type pageWriter struct {
	w      http.ResponseWriter
	buf    *[pageBufferSize]byte
	n      int
	failed bool
}

func (p *pageWriter) write(b []byte) {
	for len(b) > 0 && !p.failed {
		n := copy(p.buf[p.n:], b)
		p.n, b = p.n+n, b[n:]
		if p.n == len(p.buf) {
			p.flush()
		}
	}
}

func (p *pageWriter) flush() {
	if p.n > 0 && !p.failed {
		_, err := p.w.Write(p.buf[:p.n])
		p.failed = err != nil
	}
	p.n = 0
}

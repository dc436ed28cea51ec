package server

import "bytes"

// The recorded answers have about 24 headers. In net/http's map of headers they cost a sixth
// of the processor time of a write: the map grows twice, and is then copied and sorted. So if
// nobody else can want to see them, they don't enter the map. They become lines of text, which
// the connection inserts after the status line. net/http still writes the status line and the
// headers that it evaluates, such as Content-Length.

// headerPasser is implemented by an http.ResponseWriter directly around the one of http.Server,
// if it neither reads nor changes headers, and passes on a status at once. Middleware doesn't
// implement it: it may want to see the headers, or may drop the answer.
type headerPasser interface{ PassesHeaders() }

// lineConn returns the connection that gets the headers of the answer as lines, or nil if they
// must be in the map.
func (x *request) lineConn() *guardedConn {
	if _, ok := x.counted.ResponseWriter.(headerPasser); !ok {
		return nil
	}
	c, _ := x.r.Context().Value(guardedKey{}).(*guardedConn)
	return c
}

// finishLines is finish for an answer whose headers are lines. net/http must know the length of
// the body, so that alone is in the map.
func (w *headerWriter) finishLines() {
	for _, end := range []byte("\r\n") { // as net/http does
		if bytes.IndexByte(w.text, end) >= 0 {
			w.text = bytes.ReplaceAll(w.text, []byte{end}, []byte(" "))
		}
	}
	at := 0
	for i, end := range w.ends[:w.count] {
		if value := w.text[at:end]; w.names[i] == nameContentLength {
			w.set(nameContentLength, []string{string(value)})
		} else {
			w.lines = appendHeaderLine(w.lines, w.names[i].lower, value)
		}
		at = end
	}
	w.conn.answer = w
}

// appendHeaderLine appends a line of a header to dst.
func appendHeaderLine[T string | []byte](dst []byte, name string, value T) []byte {
	dst = append(append(append(dst, name...), ": "...), value...)
	return append(dst, "\r\n"...)
}

// free gives the writer back.
func (w *headerWriter) free() {
	w.h, w.conn, w.lines = nil, nil, w.lines[:0]
	headerWriters.Put(w)
}

// writeLines writes the beginning of an answer, with the header lines after its first line. It
// has at most the size of http.Server's buffer, so it is copied.
func (c *guardedConn) writeLines(p []byte) (written int, err error) {
	w := c.answer
	c.answer = nil
	status, size := bytes.IndexByte(p, '\n')+1, len(w.lines)
	w.begin = append(append(append(w.begin[:0], p[:status]...), w.lines...), p[status:]...)
	n, err := c.Write(w.begin)
	w.free()
	return max(n-size, 0), err
}

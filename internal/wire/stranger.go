package wire

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
)

// RequiresTLS reports whether an answer with the status and text is that of a TLS server to
// a request without TLS. It knows the words of Go's server and of nginx.
func RequiresTLS(status int, text string) bool {
	return status == http.StatusBadRequest &&
		(strings.Contains(text, "HTTP request to an HTTPS server") || strings.Contains(text, "HTTP request was sent to HTTPS port"))
}

// Stranger returns an error if the answer to a client's first request is one of some other
// web server and not of an account. Without it, a user who mistyped a port reads
// that the character '<' is invalid. It returns nil when in doubt: a proxy in front of an
// account may answer with a page of its own while the account is down (5xx), and a server
// with TLS refuses plain HTTP in its own words, which callers explain.
func Stranger(status int, header http.Header, body []byte) error {
	for name := range header {
		if strings.HasPrefix(strings.ToLower(name), "x-ms-") {
			return nil
		}
	}
	text := bytes.TrimSpace(body)
	if status >= http.StatusInternalServerError || bytes.HasPrefix(text, []byte("{")) || bytes.Contains(text, []byte("HTTPS")) {
		return nil
	}
	const most = 40
	line, _, _ := strings.Cut(string(text[:min(len(text), most)]), "\n")
	return fmt.Errorf("not an Azure Cosmos DB endpoint: it answers with status %d and %q; check the host and the port", status, line)
}

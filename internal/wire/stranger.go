package wire

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
)

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

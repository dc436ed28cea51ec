package serve

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// A request with the longest headers of all SDKs must be accepted. Each constant
// describes one of these headers. No SDK sends all of them in one request.
func TestTheLongestHeadersOfSDKsFit(t *testing.T) {
	const (
		name = 255 // maximum characters in the id of a database, a container or an item
		// sortKey is the size of a sort key in a continuation, in bytes. position is the size
		// of a position among documents: an effective partition key and an id in UTF-8.
		sortKey  = 2<<10 + 16
		position = 128 + 4*name
		// partitionKey is the length of a header with a partition key of 2 KB. The SDKs
		// of Go and JavaScript write each of its characters as 12 (two escapes).
		partitionKey = 2 << 10 / 4 * 12
		// token is more than the length of a token of Microsoft Entra ID. A token with
		// 200 groups, the maximum, has about 10 KB.
		token = 16 << 10
		// partitions is the number of partitions whose session tokens a query over the
		// container sends. By default, the HTTP clients of the SDKs of JavaScript, Java,
		// Python and .NET accept answers with headers of 16 to 64 KB. So they never have
		// longer tokens to send.
		partitions = 1000
	)
	var session []string
	for n := range partitions {
		session = append(session, wire.SessionToken(fmt.Sprint(n), 1<<32+int64(n)))
	}
	x := func(n int) string { return strings.Repeat("x", n) }
	request := "POST /dbs/" + strings.Repeat("%F0%9F%8C%8D", name) + "/colls/" + x(name) + "/docs HTTP/1.1\r\nHost: s\r\n" +
		"Authorization: type%3Daad%26ver%3D1.0%26sig%3D" + x(token) + "\r\n" +
		wire.HeaderSessionToken + ": " + strings.Join(session, ",") + "\r\n" +
		wire.HeaderContinuation + ": o~abcdefghijk=~9223372036854775807~9223372036854775807~~" + x(base64.RawURLEncoding.EncodedLen(max(sortKey, position))) + "~abcdef\r\n" +
		wire.HeaderPartitionKey + `: ["` + x(partitionKey) + "\"]\r\n" +
		"If-None-Match: \"" + x(64) + "\"\r\nUser-Agent: " + x(512) + "\r\n" + strings.Repeat("x-ms-other: "+x(64)+"\r\n", 30) + "Content-Length: 0\r\n\r\n"
	serveSlow(t, func(t *testing.T, dial func() net.Conn) {
		t.Helper()
		c := dial()
		if err := write(c, request); err != nil {
			t.Fatal(err)
		}
		a, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("a request with headers of %d bytes: %v, %v", len(request), a, err)
		}
		_ = a.Body.Close()
	})
}

func TestTheBoundOfHeadersIsKept(t *testing.T) {
	serveSlow(t, func(t *testing.T, dial func() net.Conn) {
		t.Helper()
		for _, k := range []struct {
			size int
			want string
		}{{headerBytes - 1<<10, "HTTP/1.1 200"}, {headerBytes + 1<<10, "HTTP/1.1 431"}} {
			c := dial()
			text := "GET / HTTP/1.1\r\nHost: s\r\nX: "
			go func() { _ = write(c, text+strings.Repeat("x", k.size-len(text)-4)+"\r\n\r\n") }()
			if line, err := bufio.NewReader(c).ReadString('\n'); err != nil || !strings.HasPrefix(line, k.want) {
				t.Errorf("%d bytes of headers: %q, %v", k.size, line, err)
			}
			_ = c.Close()
		}
	})
}

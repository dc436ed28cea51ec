package serve

import (
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/server"
)

// A web page can make its own name resolve to the address of this server (DNS rebinding).
// The browser then treats the server as the page's own, lets the page read answers, and
// sends the page's name in the Host header. So the server accepts only names that are
// meant for it. IP addresses are accepted, because DNS cannot redirect them.

// hostCheck is a server that answers 421 (Misdirected Request) to a request whose Host
// header names another server.
type hostCheck struct {
	*server.Server
	// next serves the requests that are accepted: the server, behind its other handlers.
	next http.Handler
	// names are the accepted hosts, in lower case.
	names map[string]bool
	// local reports whether the server listens on a loopback address, which only this
	// machine can reach.
	local bool
}

// checkHosts returns a server that accepts only requests for the hosts in the Config, and
// passes them to next. a is the address on which the server listens.
func (c Config) checkHosts(s *server.Server, next http.Handler, a net.Addr) *hostCheck {
	h := &hostCheck{Server: s, next: next, names: map[string]bool{}, local: loopback(a)}
	for _, name := range c.hosts() {
		h.names[hostName(name)] = true
	}
	return h
}

// hostName returns a Host header's name in lower case, without port, brackets and final
// dot.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// serves reports whether a request with this Host header is accepted. An empty header is
// accepted, because browsers always send one.
func (h *hostCheck) serves(host string) bool {
	name := hostName(host)
	if name == "" || strings.HasSuffix(name, ".localhost") || h.names[name] {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && (!h.local || ip.Unmap().IsLoopback())
}

// ServeHTTP serves requests for an accepted host, and answers 421 to all others.
func (h *hostCheck) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if h.serves(r.Host) {
		h.next.ServeHTTP(w, r)
		return
	}
	name := hostName(r.Host)
	body := wire.ErrorBody{Code: "MisdirectedRequest", Message: "The header Host is " + strconv.Quote(shortened(name)) +
		", which is not a name of this server. If clients reach the server by that name, start it with `changefeed serve --host " +
		shortened(name) + "`, or with --public-endpoint."}.JSON()
	header := w.Header()
	header["Content-Type"] = nil // otherwise net/http would add a type
	header["content-type"] = []string{"application/json"}
	header["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(http.StatusMisdirectedRequest)
	_, _ = w.Write(body) // an error means that the connection has ended
}

// shortened truncates a name from a client's header for an error text.
func shortened(name string) string {
	const most = 255
	return name[:min(len(name), most)]
}

// validateHosts returns an error if a name in Config.Hosts is invalid.
func (c Config) validateHosts() error {
	for _, host := range c.Hosts {
		if host == "" || hostName(host) != strings.ToLower(strings.TrimSuffix(host, ".")) || strings.ContainsAny(host, "/?#@:*[] ") {
			return refuse("--host is %q: it must be the name of a host without a port, for instance changefeed.example.com", host)
		}
	}
	return nil
}

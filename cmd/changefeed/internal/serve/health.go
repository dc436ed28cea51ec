package serve

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/listen"
)

// These are the stages of a server, as /status names them.
const (
	starting = "starting"
	serving  = "ready"
	ending   = "shutting down"
)

// health tells probes, which cannot sign requests, whether the server runs and whether it
// serves. The paths are those of Microsoft's Linux emulator: /alive, /ready and /status.
// It has a listener of its own, because probes come from a part of the network from which
// clients need not. A nil *health serves nothing.
type health struct {
	listener net.Listener
	stage    atomic.Value // a string
	began    time.Time
	version  string
}

// These constants limit each client of the health endpoint.
const (
	maxProbes = 16
	probeTime = 10 * time.Second
)

// validateHealth returns an error if Config.Health is no address, or that of another
// listener.
func (c Config) validateHealth() error {
	if c.Health == "" {
		return nil
	}
	_, port, err := net.SplitHostPort(c.Health)
	switch {
	case err != nil:
		return refuse("--health-listen is %q: it must be host:port, for instance 127.0.0.1:8080", c.Health)
	case port != "0" && (c.Health == c.Listen || c.Health == c.Metrics):
		return refuse("--health-listen is %s, which is also the address of --listen or --metrics: health needs a port of its own, for instance 127.0.0.1:8080", c.Health)
	}
	return nil
}

// openHealth listens on Config.Health. It returns nil if that is empty.
func (c Config) openHealth(ctx context.Context) (*health, error) {
	if c.Health == "" {
		return nil, nil //nolint:nilnil // no address means no endpoint
	}
	l, err := listen.On(ctx, "--health-listen", c.Health)
	if err != nil {
		return nil, err
	}
	h := &health{listener: listen.AtMost(l, maxProbes), began: time.Now(), version: c.Version}
	h.stage.Store(starting)
	return h, nil
}

// url returns the URL of the readiness probe, or "" if there is none.
func (h *health) url() string {
	if h == nil {
		return ""
	}
	return "http://" + h.listener.Addr().String() + "/ready"
}

// ready records that the server serves, unless it is shutting down already.
func (h *health) ready() {
	if h != nil {
		h.stage.CompareAndSwap(starting, serving)
	}
}

// ends records that the server is shutting down, so that no new clients are sent to it.
func (h *health) ends() {
	if h != nil {
		h.stage.Store(ending)
	}
}

// serve answers probes in the background until stop is called.
func (h *health) serve(logger *slog.Logger) (stop func()) {
	if h == nil {
		return func() {}
	}
	return listen.Serve(h.listener, "health", h.handler(), probeTime, probeTime, logger)
}

// handler answers the three paths. While the server does not serve, /ready and /status
// have status 503.
func (h *health) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /alive", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, "alive") })
	mux.HandleFunc("GET /ready", func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprintln(w, h.writeStage(w)) })
	mux.HandleFunc("GET /status", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(status{h.writeStage(w), h.version, int64(time.Since(h.began).Seconds())})
	})
	return mux
}

// status is the answer to /status.
type status struct {
	Status  string `json:"status"`
	Version string `json:"version"`
	Uptime  int64  `json:"uptimeSeconds"`
}

// writeStage writes the status of an answer that tells the server's stage, and returns the
// stage.
func (h *health) writeStage(w http.ResponseWriter) string {
	stage, _ := h.stage.Load().(string)
	if stage == serving {
		w.WriteHeader(http.StatusOK)
	} else {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	return stage
}

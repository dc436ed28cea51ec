// Package metrics implements --metrics for all commands that run for long. It serves
// OpenTelemetry's metrics of the command, and the Go runtime's, to Prometheus. The
// listener is separate, because its requests are not signed, and the command's own
// clients need not reach it.
package metrics

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/metric"
	sdk "go.opentelemetry.io/otel/sdk/metric"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/listen"
)

// Limits for a client of the endpoint.
const (
	headerTime = 10 * time.Second
	answerTime = time.Minute
	idleTime   = 2 * time.Minute
	maxHeader  = 16 << 10
	// maxConnections leaves file descriptors and memory to the command.
	maxConnections = 8
)

// Add adds the flag --metrics.
func Add(flags *pflag.FlagSet, address *string) {
	flags.StringVar(address, "metrics", "", "`address` of a Prometheus endpoint, /metrics; it accepts every client without authentication (default: none)")
}

// Check returns an error if the address is invalid. The empty address means no metrics.
func Check(address string) error {
	if address == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("--metrics is %q: it must be host:port, for instance 127.0.0.1:9081", address)
	}
	return nil
}

// Endpoint is a Prometheus endpoint. A nil Endpoint serves nothing.
type Endpoint struct {
	provider *sdk.MeterProvider
	registry *prometheus.Registry
	listener net.Listener
}

// Open listens on an address, host:port. If the address is empty, it returns nil.
func Open(ctx context.Context, address string) (*Endpoint, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // no address means no endpoint
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	listener, err := listen.On(ctx, "--metrics", address)
	if err != nil {
		return nil, err
	}
	listener = listen.AtMost(listener, maxConnections)
	return &Endpoint{provider: sdk.NewMeterProvider(sdk.WithReader(exporter)), registry: registry, listener: listener}, nil
}

// Start opens and serves an endpoint. It writes the URL and later failures to errOut.
// stop ends the endpoint and waits for its end. If the address is empty, the provider is
// nil.
func Start(ctx context.Context, address string, errOut io.Writer) (provider metric.MeterProvider, stop func(), err error) {
	e, err := Open(ctx, address)
	if e == nil || err != nil {
		return nil, func() {}, err
	}
	stop = e.Serve(slog.New(slog.NewTextHandler(errOut, nil)))
	_, _ = fmt.Fprintf(errOut, "metrics at %s\n", e.URL()) // a command runs even if its error output is closed
	return e.Provider(), stop, nil
}

// Provider returns the provider of the command's instruments. It returns nil if there are
// no metrics.
func (e *Endpoint) Provider() metric.MeterProvider {
	if e == nil {
		return nil
	}
	return e.provider
}

// URL returns the URL of the metrics. It returns "" if there are none.
func (e *Endpoint) URL() string {
	if e == nil {
		return ""
	}
	return "http://" + e.listener.Addr().String() + "/metrics"
}

// Serve answers requests until stop is called. stop waits for its end. logger receives
// the endpoint's failure.
func (e *Endpoint) Serve(logger *slog.Logger) (stop func()) {
	if e == nil {
		return func() {}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{}))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: headerTime, WriteTimeout: answerTime, IdleTimeout: idleTime, MaxHeaderBytes: maxHeader}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(e.listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("metrics endpoint failed", "error", err)
		}
	}()
	return func() {
		_ = srv.Close() // closing a listener loses nothing
		<-done
	}
}

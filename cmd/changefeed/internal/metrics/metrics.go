// Package metrics implements --metrics for all long-running commands. It serves the
// command's OpenTelemetry metrics, and those of the Go runtime, to Prometheus. Requests
// for metrics are not signed, and the command's own clients need not reach them. So
// metrics have a listener of their own.
package metrics

import (
	"context"
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

// These constants limit each client of the endpoint.
const (
	headerTime = 10 * time.Second
	answerTime = time.Minute
	// maxConnections is the maximum number of open connections. It is small, so that file
	// descriptors and memory are left for the command.
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

// Start opens an endpoint and serves it until stop is called. It writes the endpoint's
// URL, and later failures, to errOut. If the address is empty, the provider is nil.
func Start(ctx context.Context, address string, errOut io.Writer) (provider metric.MeterProvider, stop func(), err error) {
	e, err := Open(ctx, address)
	if e == nil || err != nil {
		return nil, func() {}, err
	}
	stop = e.Serve(slog.New(slog.NewTextHandler(errOut, nil)))
	_, _ = fmt.Fprintf(errOut, "metrics at %s\n", e.URL()) // a command runs even if its error output is closed
	return e.Provider(), stop, nil
}

// Provider returns the provider with which the command registers its instruments. It
// returns nil if the endpoint is nil.
func (e *Endpoint) Provider() metric.MeterProvider {
	if e == nil {
		return nil
	}
	return e.provider
}

// URL returns the URL of the metrics. It returns "" if the endpoint is nil.
func (e *Endpoint) URL() string {
	if e == nil {
		return ""
	}
	return "http://" + e.listener.Addr().String() + "/metrics"
}

// Serve answers requests in the background until stop is called. stop returns when the
// last request has ended. Serve logs the failure of its listener to logger.
func (e *Endpoint) Serve(logger *slog.Logger) (stop func()) {
	if e == nil {
		return func() {}
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(e.registry, promhttp.HandlerOpts{}))
	return listen.Serve(e.listener, "metrics", mux, headerTime, answerTime, logger)
}

// Package metrics is what --metrics does, in every command that runs for long: OpenTelemetry's
// metrics of whatever the command runs, and the Go runtime's, are offered to Prometheus on a
// listener of its own. They are signed by nobody, and need not be reached by whom the command serves.
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

// Limits of a client of the endpoint.
const (
	headerTime = 10 * time.Second
	answerTime = time.Minute
	idleTime   = 2 * time.Minute
	maxHeader  = 16 << 10
	// maxConnections leaves file descriptors and memory to whatever the command does.
	maxConnections = 8
)

// Add adds the flag --metrics.
func Add(flags *pflag.FlagSet, address *string) {
	flags.StringVar(address, "metrics", "", "`address` of a Prometheus endpoint, /metrics, for everybody who reaches it (default: none)")
}

// Check refuses an address that is none; "": there are no metrics.
func Check(address string) error {
	if address == "" {
		return nil
	}
	if _, _, err := net.SplitHostPort(address); err != nil {
		return fmt.Errorf("--metrics is %q: it is host:port, as in 127.0.0.1:9081", address)
	}
	return nil
}

// Endpoint is a Prometheus endpoint. A nil one offers nothing.
type Endpoint struct {
	provider *sdk.MeterProvider
	registry *prometheus.Registry
	listener net.Listener
}

// Open listens on an address, host:port; "": there are no metrics, and the endpoint is nil.
func Open(ctx context.Context, address string) (*Endpoint, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // none is what was asked for
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

// Start is what a command does that has nothing to say to the endpoint's users but where it is: it
// opens and serves it, and tells the URL to errOut, and what goes wrong later. stop waits for its end. Without an address
// the provider is nil.
func Start(ctx context.Context, address string, errOut io.Writer) (provider metric.MeterProvider, stop func(), err error) {
	e, err := Open(ctx, address)
	if e == nil || err != nil {
		return nil, func() {}, err
	}
	stop = e.Serve(slog.New(slog.NewTextHandler(errOut, nil)))
	_, _ = fmt.Fprintf(errOut, "metrics at %s\n", e.URL()) // a command runs without a reader of its errors
	return e.Provider(), stop, nil
}

// Provider is what the command's parts make their instruments with; nil: there are no metrics.
func (e *Endpoint) Provider() metric.MeterProvider {
	if e == nil {
		return nil
	}
	return e.provider
}

// URL is where the metrics are; "": nowhere.
func (e *Endpoint) URL() string {
	if e == nil {
		return ""
	}
	return "http://" + e.listener.Addr().String() + "/metrics"
}

// Serve answers until stop is called, which waits for its end. logger is told when the endpoint fails.
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
			logger.Error("the metrics are not to be had any more", "error", err)
		}
	}()
	return func() {
		_ = srv.Close() // of a listener: nothing is lost by it
		<-done
	}
}

package serve

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
)

// metricsEndpoint offers the server's metrics, and the Go runtime's, to Prometheus, on a listener of
// its own: they are signed by nobody, and need not be reached by whom the server serves.
type metricsEndpoint struct {
	provider *metric.MeterProvider
	registry *prometheus.Registry
	listener net.Listener
}

// newMetrics listens on an address; "": there are no metrics, and the endpoint is nil.
func newMetrics(ctx context.Context, address string) (*metricsEndpoint, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // none is what was asked for
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("metrics: %w", err)
	}
	listener, err := listen(ctx, "--metrics", address)
	if err != nil {
		return nil, err
	}
	return &metricsEndpoint{provider: metric.NewMeterProvider(metric.WithReader(exporter)), registry: registry, listener: listener}, nil
}

// url is where the metrics are.
func (m *metricsEndpoint) url() string { return "http://" + m.listener.Addr().String() + "/metrics" }

// serve answers until stop is called, which waits for its end.
func (m *metricsEndpoint) serve(logger *slog.Logger) (stop func()) {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	srv := &http.Server{Handler: mux, ReadHeaderTimeout: headerTime, WriteTimeout: bodyTime, IdleTimeout: idleTime}
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := srv.Serve(m.listener); !errors.Is(err, http.ErrServerClosed) {
			logger.Error("the metrics are not to be had any more", "error", err)
		}
	}()
	return func() {
		_ = srv.Close() // of a listener: nothing is lost by it
		<-done
	}
}

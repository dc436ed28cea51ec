// Lag runs a processor with monitoring. It serves the processor's metrics and lag to
// Prometheus at /metrics, and health probes at /alive and /ready. A separate program
// could measure the lag as well.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
)

const processorName = "watched"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context) error {
	shop, err := account()
	if err != nil {
		return err
	}
	source := shop.Source("shop", "orders", cosmos.SourceOptions{})
	leases := shop.Leases("shop", "leases", cosmos.LeaseOptions{Create: true})

	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		return err
	}
	provider := metric.NewMeterProvider(metric.WithReader(exporter))

	processor, err := changefeed.New(changefeed.Config{
		Processor: processorName, Source: source, Leases: leases, Start: feed.Beginning(), Metrics: provider,
		Handler: changefeed.HandlerFunc(func(context.Context, *changefeed.Batch) error { return nil }),
	})
	if err != nil {
		return err
	}
	watcher, err := estimator.New(estimator.Config{
		Processor: processorName, Source: source, Leases: leases, Interval: 15 * time.Second, Metrics: provider,
		Handler: func(_ context.Context, r estimator.Report) error {
			if r.Total.Age > time.Minute {
				log.Printf("%s is %s behind", processorName, r.Total.Age)
			}
			return nil
		},
		OnError: func(err error) { log.Print(err) },
	})
	if err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/", changefeed.HealthHandler(processor)) // /alive and /ready
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", cmp.Or(os.Getenv("METRICS_ADDRESS"), "127.0.0.1:9100"))
	if err != nil {
		return err
	}
	fmt.Printf("metrics at http://%s/metrics\n", listener.Addr())
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}

	var all sync.WaitGroup
	var errs [3]error
	all.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			errs[0] = err
		}
	})
	all.Go(func() { errs[1] = watcher.Run(ctx) })
	errs[2] = processor.Run(ctx)
	_ = server.Close()
	all.Wait()
	return errors.Join(errs[:]...)
}

// account returns the account of COSMOS_ENDPOINT. It signs in with COSMOS_KEY, or by
// Microsoft Entra ID if there is no key.
func account() (*cosmos.Account, error) {
	endpoint, key := os.Getenv("COSMOS_ENDPOINT"), os.Getenv("COSMOS_KEY")
	if key != "" {
		return cosmos.WithKey(endpoint, key, cosmos.Options{})
	}
	credential, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, err
	}
	return cosmos.WithCredential(endpoint, credential, cosmos.Options{})
}

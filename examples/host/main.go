// Host is a processor for production, as the files in deploy/ expect it: SIGTERM ends it after
// it has drained, and on one port it serves health probes at /alive and /ready, and metrics at
// /metrics. It writes each change to its standard output, as a line with the host's name.
//
// COSMOS_ENDPOINT and COSMOS_KEY name the account, INSTANCE the host, and LISTEN the address
// of probes and metrics. WORK is how long a batch takes after it was written, for instance
// 200ms, so that a trial can stop a host in the midst of it.
package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
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
	"github.com/changefeed-go/changefeed/feed"
)

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
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		return err
	}
	work, err := time.ParseDuration(cmp.Or(os.Getenv("WORK"), "0s"))
	if err != nil {
		return err
	}
	instance := os.Getenv("INSTANCE") // if it is empty, the machine's name is used
	processor, err := changefeed.New(changefeed.Config{
		Processor: "shipping",
		Instance:  instance,
		Source:    shop.Source("shop", "orders", cosmos.SourceOptions{}),
		Leases:    shop.Leases("shop", "leases", cosmos.LeaseOptions{Create: true}),
		Start:     feed.Beginning(),
		Metrics:   metric.NewMeterProvider(metric.WithReader(exporter)),
		Handler: changefeed.HandlerFunc(func(ctx context.Context, b *changefeed.Batch) error {
			if err := write(instance, b); err != nil {
				return err
			}
			select {
			case <-time.After(work):
				return nil
			case <-ctx.Done(): // only if the drain takes too long, or the lease is lost
				return context.Cause(ctx)
			}
		}),
	})
	if err != nil {
		return err
	}

	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	mux.Handle("/", changefeed.HealthHandler(processor)) // /alive and /ready
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", cmp.Or(os.Getenv("LISTEN"), ":8080"))
	if err != nil {
		return err
	}
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	var serving sync.WaitGroup
	var served error
	serving.Go(func() {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			served = err
		}
	})
	ran := processor.Run(ctx) // it returns once SIGTERM has come and the leases are released
	_ = server.Close()
	serving.Wait()
	return errors.Join(ran, served)
}

// write writes the changes of a batch to the standard output, as one line each. A single write
// keeps the lines whole if several hosts append to one file.
func write(instance string, b *changefeed.Batch) error {
	var lines bytes.Buffer
	for _, change := range b.Changes {
		line, err := json.Marshal(struct {
			Instance, Lease string
			LSN             int64
			Current         json.RawMessage
		}{instance, b.LeaseToken, change.LSN, change.Current})
		if err != nil {
			return err
		}
		lines.Write(append(line, '\n'))
	}
	_, err := os.Stdout.Write(lines.Bytes())
	return err
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

package deploy

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
)

var prometheusBinary = flag.String("deploy.prometheus", "", "`path` of Prometheus, which then scrapes a processor and evaluates every query of the dashboard")

// A query of metrics that exist may still match nothing, for instance because two sides of
// an operator have different labels. So Prometheus itself scrapes a processor with an
// estimator, and every panel must show something.
func TestEveryPanelShowsSomething(t *testing.T) {
	if *prometheusBinary == "" {
		t.Skip("needs -deploy.prometheus (make deploy-check)")
	}
	scraped := watchedProcessor(t)
	api := startPrometheus(t, strings.TrimPrefix(scraped, "http://"))
	var d dashboard
	if err := json.Unmarshal([]byte(text(t, "deploy/grafana/changefeed.json")), &d); err != nil {
		t.Fatal(err)
	}
	names := strings.NewReplacer("$__rate_interval", "10s", "$processor", ".*")
	deadline := time.Now().Add(time.Minute)
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			query := names.Replace(target.Expr)
			for rows(t, api, query) == 0 {
				if time.Now().After(deadline) {
					t.Errorf("panel %q shows nothing: %s", p.Title, query)
					break
				}
				<-time.After(200 * time.Millisecond)
			}
		}
	}
}

// watchedProcessor runs a processor whose handler fails now and then, and an estimator. It
// returns the URL of their metrics.
func watchedProcessor(t *testing.T) string {
	t.Helper()
	registry := prometheus.NewRegistry()
	exporter, err := otelprometheus.New(otelprometheus.WithRegisterer(registry))
	if err != nil {
		t.Fatal(err)
	}
	provider := metric.NewMeterProvider(metric.WithReader(exporter))
	source, leases := memory.NewSource(memory.Options{}), memory.NewLeases(nil)
	calls := 0
	p, err := changefeed.New(changefeed.Config{
		Processor: "watched", Source: source, Leases: leases, Start: feed.Beginning(), Metrics: provider,
		Logger: slog.New(slog.DiscardHandler),
		Handler: changefeed.HandlerFunc(func(context.Context, *changefeed.Batch) error {
			if calls++; calls%2 == 0 {
				return errors.New("a failure that the dashboard shows")
			}
			return nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	e, err := estimator.New(estimator.Config{
		Processor: "watched", Source: source, Leases: leases, Interval: time.Second, Metrics: provider,
		Handler: func(context.Context, estimator.Report) error { return nil },
		OnError: func(error) {}, // the first measurement may come before the leases
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 3)
	go func() { ended <- p.Run(ctx) }()
	go func() { ended <- e.Run(ctx) }()
	go func() { // a change every tenth of a second, until the end
		for i := 0; ctx.Err() == nil; i++ {
			if err := source.Upsert(feed.PartitionKey{"k"}, fmt.Sprintf(`{"id":"%d","k":"k"}`, i%10)); err != nil {
				ended <- err
				return
			}
			<-time.After(100 * time.Millisecond)
		}
		ended <- nil
	}()
	s := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	t.Cleanup(func() {
		stop()
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
		s.Close()
	})
	return s.URL
}

// startPrometheus starts Prometheus with our alerts. It scrapes address every second. The
// result is the URL of its API.
func startPrometheus(t *testing.T, address string) string {
	t.Helper()
	dir := t.TempDir()
	rules, err := filepath.Abs("prometheus/changefeed.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf("global: {scrape_interval: 1s}\nrule_files: [%q]\nscrape_configs:\n- job_name: changefeed\n  static_configs: [{targets: [%q]}]\n", rules, address)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	listen := l.Addr().String()
	_ = l.Close()                                                                                                     // Prometheus takes the port
	cmd := exec.CommandContext(t.Context(), *prometheusBinary, "--config.file="+filepath.Join(dir, "prometheus.yml"), //nolint:gosec // the one who runs the test names it
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+listen)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Signal(os.Interrupt); _ = cmd.Wait() })
	return "http://" + listen
}

// rows returns the number of series in the result of a query, or 0 if there is no answer
// yet.
func rows(t *testing.T, api, query string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, api+"/api/v1/query?query="+url.QueryEscape(query), http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0 // it starts
	}
	defer func() { _ = answer.Body.Close() }()
	var body struct {
		Error string
		Data  struct{ Result []json.RawMessage }
	}
	if err := json.NewDecoder(answer.Body).Decode(&body); err == nil && body.Error != "" {
		t.Fatalf("%s: %s", query, body.Error)
	}
	return len(body.Data.Result)
}

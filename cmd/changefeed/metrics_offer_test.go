package main

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// scrape returns the text of a metrics endpoint.
func scrape(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	page, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		t.Fatalf("%d: %v", answer.StatusCode, err)
	}
	return string(page)
}

// Every long-running command accepts --metrics, and serves metrics of its own there.
func TestLongCommandsOfferTheirMetrics(t *testing.T) {
	a := newAccount(t)
	for i := range 20 {
		a.order(i)
	}
	file := filepath.Join(t.TempDir(), "key")
	write(t, file, a.key)
	for _, c := range []struct {
		args    []string
		figures []string
	}{
		{
			[]string{"tail", "--follow", "--endpoint", a.endpoint, "--key-file", file, "--database", "shop", "--container", "orders"},
			[]string{"changefeed_tail_changes_total 20", `changefeed_tail_reads_total{outcome="changes"}`, "changefeed_tail_request_units_total "},
		},
		{
			[]string{
				"replicate", "--from", a.endpoint + "/shop/orders", "--to", a.endpoint + "/shop/copy", "--create", "--key", "/id",
				"--from-key-file", file, "--to-key-file", file,
			},
			[]string{`changefeed_processor_changes_total{`, `changefeed_processor_leases{`, `changefeed_processor_request_units_total{container="leases"`},
		},
		{
			[]string{"demo", "--records", "400", "--hosts", "1"},
			[]string{`changefeed_processor_changes_total{`, `changefeed_processor_batch_duration_seconds_bucket{`},
		},
	} {
		t.Run(c.args[0], func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			errOut, errors := io.Pipe()
			ended := make(chan int, 1)
			go func() {
				ended <- run(ctx, append(c.args, "--metrics", "127.0.0.1:0"), strings.NewReader(""), io.Discard, errors)
				_ = errors.Close()
			}()
			told := bufio.NewScanner(errOut)
			if !told.Scan() || !strings.HasPrefix(told.Text(), "metrics at http://127.0.0.1:") {
				t.Fatalf("told %q", told.Text())
			}
			url := strings.TrimPrefix(told.Text(), "metrics at ")
			go func() { _, _ = io.Copy(io.Discard, errOut) }()
			for missing := c.figures; len(missing) > 0 && len(ended) == 0; {
				page := scrape(t, url)
				missing = slices.DeleteFunc(slices.Clone(c.figures), func(figure string) bool { return strings.Contains(page, figure) })
			}
			if len(ended) > 0 {
				t.Error("the command ended without all its figures")
			}
			stop()
			<-ended
		})
	}
}

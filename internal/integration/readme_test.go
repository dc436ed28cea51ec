package integration

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/storetype"
)

// The README's example on Azure Cosmos DB runs against a server. It must create its
// leases and print the orders that are written after its start.
func TestReadmesExampleOnAzureCosmosDBRuns(t *testing.T) {
	readme, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile("(?s)### On Azure Cosmos DB.*?```go\n(.*?)```").FindStringSubmatch(string(readme))
	if m == nil {
		t.Fatal("README.md has no example on Azure Cosmos DB")
	}
	dir := t.TempDir()
	file, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "mailer")
	if err := os.WriteFile(file, []byte(m[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, file).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	db := changefeedtest.NewStore(t)
	orders := changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/customer"}})
	h, err := server.New(db, server.Options{Keys: []string{wire.EmulatorKey}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(h)
	defer func() { h.Drain(); s.CloseClientConnections(); s.Close() }()
	cmd := exec.CommandContext(t.Context(), binary)
	cmd.Env = append(os.Environ(), "COSMOS_ENDPOINT="+s.URL, "COSMOS_KEY="+wire.EmulatorKey)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	ctx, done := context.WithCancel(t.Context())
	defer done()
	go func() { // writes ten orders a second; the example prints those written after its start
		defer close(written)
		for i := 0; ctx.Err() == nil; i++ {
			if _, err := orders.Upsert(ctx, nil, fmt.Appendf(nil, `{"id":"%d","customer":"ada","total":12}`, i), storetype.WriteOptions{}); err != nil {
				if ctx.Err() == nil {
					written <- err
				}
				return
			}
			select {
			case <-time.After(100 * time.Millisecond):
			case <-ctx.Done():
			}
		}
	}()
	line, err := bufio.NewReader(out).ReadString('\n')
	done()
	if err != nil || line != "ada ordered for 12\n" {
		t.Errorf("it prints %q (%v)", line, err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		t.Errorf("after SIGTERM it ends with %v", err)
	}
}

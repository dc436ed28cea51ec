package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/admin"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/serve"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
)

// serverBackend is a backend for hosts in processes of their own. It is `changefeed
// serve` in this process, listening on the loopback address, with an account on it. It
// ends with this process, even if the process is killed.
type serverBackend struct {
	*connect.Opened
	admin *admin.Client
	stop  context.CancelFunc
	done  chan error
}

var endpointLine = regexp.MustCompile(`(?m)^endpoint +(\S+)$`)

// startServer starts a server over the store in dir, and opens an account on it.
func startServer(ctx context.Context, dir string) (*serverBackend, error) {
	ctx, cancel := context.WithCancel(ctx)
	s := &serverBackend{stop: cancel, done: make(chan error, 1)}
	banner := &banner{ready: make(chan struct{})}
	go func() {
		s.done <- serve.Run(ctx, serve.Config{
			Listen: "127.0.0.1:0", Data: dir, TLS: "off", Partitions: 1, LogLevel: slog.LevelError, Out: banner, Log: io.Discard,
		})
	}()
	select {
	case <-banner.ready:
	case err := <-s.done:
		cancel()
		return nil, fmt.Errorf("serve: %w", err)
	}
	endpoint := endpointLine.FindStringSubmatch(banner.text.String())
	if endpoint == nil {
		cancel()
		return nil, errors.Join(errors.New("serve: the server did not print its endpoint"), <-s.done)
	}
	settings := connect.Settings{Endpoint: endpoint[1], Key: wire.EmulatorKey}
	var err error
	if s.Opened, err = connect.OpenSettings(ctx, settings); err == nil {
		s.admin, err = s.Admin()
	}
	if err != nil {
		return nil, errors.Join(err, s.end()) //nolint:contextcheck // it must close even if ctx has ended
	}
	return s, nil
}

// end shuts down the server.
func (s *serverBackend) end() error {
	var err error
	if s.Opened != nil {
		err = s.Close()
	}
	s.stop()
	return errors.Join(err, <-s.done)
}

// banner collects the output of a server until the server is ready.
type banner struct {
	text  strings.Builder
	ready chan struct{}
}

func (b *banner) Write(p []byte) (int, error) {
	n, err := b.text.Write(p)
	if strings.HasSuffix(b.text.String(), "\nready\n") {
		close(b.ready)
	}
	return n, err
}

// ensure implements backend.
func (s *serverBackend) ensure(ctx context.Context, name, key string, partitions int) (container, error) {
	client := s.Documents()
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: database}, nil); err != nil && connect.Status(err) != http.StatusConflict {
		return nil, fmt.Errorf("create the database: %w", err)
	}
	db, err := client.NewDatabase(database)
	if err != nil {
		return nil, err
	}
	// Like the service, the server gives a container one partition per 10,000 RU/s.
	throughput := azcosmos.NewManualThroughputProperties(int32(partitions) * 10_000) //nolint:gosec // a few
	_, err = db.CreateContainer(ctx, azcosmos.ContainerProperties{
		ID:                     name,
		PartitionKeyDefinition: azcosmos.PartitionKeyDefinition{Kind: azcosmos.PartitionKeyKindHash, Version: 2, Paths: []string{key}},
	}, &azcosmos.CreateContainerOptions{ThroughputProperties: &throughput})
	if err != nil && connect.Status(err) != http.StatusConflict {
		return nil, err
	}
	c, err := client.NewContainer(database, name)
	if err != nil {
		return nil, err
	}
	has, err := c.Read(ctx, nil)
	if err != nil {
		return nil, err
	}
	return serverContainer{s, c, name}, sameKey(has.ContainerProperties.PartitionKeyDefinition.Paths, key)
}

// serverContainer is a container of the server.
type serverContainer struct {
	server *serverBackend
	client *azcosmos.ContainerClient
	id     string
}

func (c serverContainer) name() string { return c.id }

func (c serverContainer) create(ctx context.Context, key feed.PartitionKey, body []byte) (int64, error) {
	ctx, k := connect.Keyed(ctx, key)
	made, err := c.client.CreateItem(ctx, k, body, nil)
	if err != nil {
		return 0, storeError(err)
	}
	return lsnOf(made.SessionToken)
}

func (c serverContainer) read(ctx context.Context, key feed.PartitionKey, id string) (body []byte, etag string, err error) {
	ctx, k := connect.Keyed(ctx, key)
	got, err := c.client.ReadItem(ctx, k, id, nil)
	return got.Value, string(got.ETag), storeError(err)
}

func (c serverContainer) replace(ctx context.Context, key feed.PartitionKey, id string, body []byte, etag string) (int64, error) {
	ctx, k := connect.Keyed(ctx, key)
	is := azcore.ETag(etag)
	made, err := c.client.ReplaceItem(ctx, k, id, body, &azcosmos.ItemOptions{IfMatchEtag: &is})
	if err != nil {
		return 0, storeError(err)
	}
	return lsnOf(made.SessionToken)
}

func (c serverContainer) split(ctx context.Context, partition string) ([]string, error) {
	made, err := c.server.admin.Split(ctx, database, c.id, partition, "")
	children := make([]string, 0, len(made))
	for _, p := range made {
		children = append(children, p.ID)
	}
	return children, err
}

func (c serverContainer) source() feed.Source {
	return c.server.Source(database, c.id, cosmos.SourceOptions{})
}

func (c serverContainer) leases() lease.Container {
	return c.server.Leases(database, c.id, cosmos.LeaseOptions{})
}

// lsnOf returns the LSN of a write from its session token, where it is the last part: 13
// in 0:-1#13.
func lsnOf(token *string) (int64, error) {
	if token == nil {
		return 0, errors.New("the answer to a write has no session token")
	}
	_, lsn, _ := strings.Cut(*token, "#")
	n, err := strconv.ParseInt(lsn, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("the answer to a write has the session token %q: %w", *token, err)
	}
	return n, nil
}

// storeError returns err, wrapped so that it also matches the store's error for the same
// status.
func storeError(err error) error {
	switch connect.Status(err) {
	case http.StatusConflict:
		return fmt.Errorf("%w: %w", store.ErrConflict, err)
	case http.StatusPreconditionFailed:
		return fmt.Errorf("%w: %w", store.ErrPreconditionFailed, err)
	}
	return err
}

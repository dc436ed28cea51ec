package replicate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/admin"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
)

// makeTarget creates the target with the properties of the source, but with its own
// partition key. The answer to a create may be lost. So a database or container that did
// not exist before the request counts as created by this run.
func (cfg Config) makeTarget(ctx context.Context, source *described) error {
	throughput, err := cfg.throughput(ctx)
	if err != nil {
		return err
	}
	database := cfg.To.Account.Documents().Database(cfg.To.Database)
	err = database.Read(ctx)
	missing := connect.Status(err) == http.StatusNotFound
	err = database.Create(ctx)
	if missing && maybeApplied(err) {
		cfg.made.database = true
	}
	if err != nil && connect.Status(err) != http.StatusConflict {
		return fmt.Errorf("create database %s: %w", cfg.To.Database, err)
	}
	err = database.CreateContainer(ctx, cfg.likeSource(source), throughput)
	cfg.made.narrow = true
	if maybeApplied(err) {
		cfg.made.target = true
	}
	if err != nil && connect.Status(err) != http.StatusConflict { // another process may have created it first
		return fmt.Errorf("create container %s: %w", cfg.To, err)
	}
	return cfg.spread(ctx)
}

// maybeApplied reports whether the service may have carried out a request that returned
// err.
func maybeApplied(err error) bool {
	return err == nil || heals(err) || errors.Is(err, context.Canceled)
}

// likeSource returns the properties of a new target. They are the source's, except for
// the partition key. Unique keys apply within one partition key, so a target with another
// partition key gets none. Without --key, a source without a partition key is copied into
// another one.
func (cfg Config) likeSource(source *described) map[string]any {
	key := source.PartitionKey
	copied := []string{"defaultTtl", "indexingPolicy", "conflictResolutionPolicy", "vectorEmbeddingPolicy", "fullTextPolicy"}
	if len(cfg.Key) == 0 || slices.Equal(cfg.Key, source.paths) {
		copied = append(copied, "uniqueKeyPolicy")
	} else {
		key = connect.PartitionKey{Paths: cfg.Key, Kind: connect.Hash, Version: 2}
		if len(cfg.Key) > 1 {
			key.Kind = connect.MultiHash
		}
	}
	p := map[string]any{"id": cfg.To.Container}
	if !key.SystemKey || len(cfg.Key) > 0 {
		key.SystemKey = false
		p["partitionKey"] = key
	}
	for _, name := range copied {
		if member, ok := source.Members[name]; ok {
			p[name] = member
		}
	}
	return p
}

// throughput returns the throughput of a new target: that of --throughput, or else the
// source's own. It is zero if the target gets none of its own.
func (cfg Config) throughput(ctx context.Context) (connect.Throughput, error) {
	switch {
	case cfg.Throughput > 0:
		return connect.Throughput{Manual: cfg.Throughput}, nil
	case cfg.Throughput < 0: // no throughput of its own
		return connect.Throughput{}, nil
	}
	t, err := cfg.From.documents().Throughput(ctx)
	switch status := connect.Status(err); {
	// The source is serverless, or the credential may not read the throughput.
	case status == http.StatusNotFound, status == http.StatusBadRequest, status == http.StatusForbidden:
		return connect.Throughput{}, nil
	case err != nil:
		return t, fmt.Errorf("read the throughput of container %s (or set it with --throughput): %w", cfg.From, err)
	}
	return t, nil
}

// spread splits partitions of a target that this run has created, until it has as many as
// the source. Only `changefeed serve` can do that. In Azure Cosmos DB the throughput
// determines the number of partitions.
func (cfg Config) spread(ctx context.Context) error {
	if !cfg.made.narrow {
		return nil
	}
	server, err := cfg.To.Account.Admin()
	if err != nil {
		return nil //nolint:nilerr // without a key it is not a changefeed server
	}
	there, err := server.Partitions(ctx, cfg.To.Database, cfg.To.Container)
	if err != nil && heals(err) {
		return fmt.Errorf("list the partitions of container %s: %w", cfg.To, err)
	}
	if err != nil {
		return nil //nolint:nilerr // another answer is not that of a changefeed server
	}
	// Put the partitions that an earlier attempt has split at the end.
	slices.SortStableFunc(there, func(a, b admin.Partition) int { return len(a.Parents) - len(b.Parents) })
	wanted, err := cfg.source().Partitions(ctx)
	if err != nil {
		return fmt.Errorf("list the partitions of container %s: %w", cfg.From, err)
	}
	for len(there) < len(wanted) {
		// The first partition is the widest, because the halves of split partitions are
		// appended at the end.
		halves, err := server.Split(ctx, cfg.To.Database, cfg.To.Container, there[0].ID, "")
		if err != nil {
			return fmt.Errorf("split container %s: %w", cfg.To, err)
		}
		there = append(there[1:], halves...)
	}
	cfg.made.narrow = false
	return nil
}

package replicate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

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
	client := cfg.To.Account.Documents()
	database, err := client.NewDatabase(cfg.To.Database)
	if err != nil {
		return err
	}
	_, err = database.Read(ctx, nil)
	missing := connect.Status(err) == http.StatusNotFound
	_, err = client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: connect.ID(cfg.To.Database)}, nil)
	if missing && maybeApplied(err) {
		cfg.made.database = true
	}
	if err != nil && connect.Status(err) != http.StatusConflict {
		return fmt.Errorf("create database %s: %w", cfg.To.Database, err)
	}
	_, err = database.CreateContainer(ctx, cfg.likeSource(source), &azcosmos.CreateContainerOptions{ThroughputProperties: throughput})
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
// partition key gets none.
func (cfg Config) likeSource(source *described) azcosmos.ContainerProperties {
	from := source.properties
	p := azcosmos.ContainerProperties{
		ID: connect.ID(cfg.To.Container), DefaultTimeToLive: from.DefaultTimeToLive, PartitionKeyDefinition: from.PartitionKeyDefinition,
		IndexingPolicy: from.IndexingPolicy, ConflictResolutionPolicy: from.ConflictResolutionPolicy,
		VectorEmbeddingPolicy: from.VectorEmbeddingPolicy, FullTextPolicy: from.FullTextPolicy,
	}
	if len(cfg.Key) == 0 || slices.Equal(cfg.Key, source.paths) {
		p.UniqueKeyPolicy = from.UniqueKeyPolicy
		return p
	}
	p.PartitionKeyDefinition = azcosmos.PartitionKeyDefinition{Kind: azcosmos.PartitionKeyKindHash, Version: 2, Paths: cfg.Key}
	if len(cfg.Key) > 1 {
		p.PartitionKeyDefinition.Kind = azcosmos.PartitionKeyKindMultiHash
	}
	return p
}

// throughput returns the throughput of a new target: that of --throughput, or else the
// source's own. It returns nil if the target gets none of its own.
func (cfg Config) throughput(ctx context.Context) (*azcosmos.ThroughputProperties, error) {
	if cfg.Throughput > 0 {
		t := azcosmos.NewManualThroughputProperties(int32(cfg.Throughput)) //nolint:gosec // the flag bounds it
		return &t, nil
	}
	if cfg.Throughput < 0 {
		return nil, nil //nolint:nilnil // -1 means no throughput of its own
	}
	source, err := cfg.From.Account.Documents().NewContainer(cfg.From.Database, cfg.From.Container)
	if err != nil {
		return nil, err
	}
	got, err := source.ReadThroughput(ctx, nil)
	switch status := connect.Status(err); {
	// The source shares its database's throughput or is serverless. Or the credential may
	// not read the throughput.
	case status == http.StatusNotFound, status == http.StatusBadRequest, status == http.StatusForbidden:
		return nil, nil //nolint:nilnil // nil means no throughput of its own
	case err != nil:
		return nil, fmt.Errorf("read the throughput of container %s (or set it with --throughput): %w", cfg.From, err)
	}
	if most, auto := got.ThroughputProperties.AutoscaleMaxThroughput(); auto {
		t := azcosmos.NewAutoscaleThroughputProperties(most)
		return &t, nil
	}
	if rate, manual := got.ThroughputProperties.ManualThroughput(); manual {
		t := azcosmos.NewManualThroughputProperties(rate)
		return &t, nil
	}
	return nil, nil //nolint:nilnil // nil means no throughput of its own
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

package replicate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
)

// Place is a container of an account.
type Place struct {
	Account             *connect.Opened
	Database, Container string
}

func (p Place) String() string { return p.Database + "/" + p.Container }

// ConfigError tells that what was asked for can't be done so. Its text says what
// to change.
type ConfigError struct{ reason string }

func (e *ConfigError) Error() string { return e.reason }

func refuse(format string, args ...any) error {
	return &ConfigError{reason: fmt.Sprintf(format, args...)}
}

// described is what has to be known of a container.
type described struct {
	properties *azcosmos.ContainerProperties
	paths      []string
}

// describe reads a container's properties; nil: there is none.
func describe(ctx context.Context, p Place) (*described, error) {
	c, err := p.Account.Documents().NewContainer(p.Database, p.Container)
	if err != nil {
		return nil, err
	}
	got, err := c.Read(ctx, nil)
	if connect.Status(err) == http.StatusNotFound {
		return nil, nil //nolint:nilnil // none is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("read container %s: %w", p, err)
	}
	return &described{properties: got.ContainerProperties, paths: got.ContainerProperties.PartitionKeyDefinition.Paths}, nil
}

// prepare describes both containers, and makes the target if that is asked for.
func (cfg Config) prepare(ctx context.Context) (source, target *described, err error) {
	if source, err = describe(ctx, cfg.From); err != nil {
		return nil, nil, err
	}
	if source == nil {
		return nil, nil, refuse("there is no container %s in %s", cfg.From, cfg.From.Account.Settings)
	}
	if target, err = describe(ctx, cfg.To); err != nil {
		return nil, nil, err
	}
	if target == nil {
		if !cfg.Create {
			return nil, nil, refuse("there is no container %s in %s; --create makes it", cfg.To, cfg.To.Account.Settings)
		}
		paths := cfg.Key
		if len(paths) == 0 {
			paths = source.paths
		}
		if err := create(ctx, cfg.To, paths, source.properties.DefaultTimeToLive); err != nil {
			return nil, nil, err
		}
		if target, err = describe(ctx, cfg.To); err != nil || target == nil {
			return nil, nil, errors.Join(fmt.Errorf("container %s was made, and is not to be found", cfg.To), err)
		}
	}
	if len(cfg.Key) > 0 && !slices.Equal(cfg.Key, target.paths) {
		return nil, nil, refuse("container %s is keyed by %s, and --key says %s", cfg.To, strings.Join(target.paths, ","), strings.Join(cfg.Key, ","))
	}
	switch same, err := sameContainer(ctx, cfg.From, cfg.To); {
	case err != nil:
		return nil, nil, err
	case same:
		return nil, nil, refuse("%s is both sides: a container can't be copied into itself", cfg.From)
	}
	return source, target, cfg.leasesApart(ctx)
}

// leasesApart refuses a lease container that is one of both sides: as the source it changes with every
// checkpoint, so a copy never catches up; as the target documents come to lie among the leases, and over them.
func (cfg Config) leasesApart(ctx context.Context) error {
	leases, err := describe(ctx, cfg.Leases)
	switch {
	case err != nil:
		return err
	case leases == nil && !cfg.Create:
		return refuse("there is no lease container %s in %s; --create makes it, --leases and --lease-database name another", cfg.Leases, cfg.Leases.Account.Settings)
	case leases == nil:
		return nil // it is made later
	}
	for _, side := range []struct {
		name  string
		place Place
	}{{"source", cfg.From}, {"target", cfg.To}} {
		switch same, err := sameContainer(ctx, side.place, cfg.Leases); {
		case err != nil:
			return err
		case same:
			return refuse("%s is the %s and the lease container: say --leases with another one", side.place, side.name)
		}
	}
	return nil
}

// sameContainer reports whether two places are one container, by whatever endpoints their accounts are reached.
func sameContainer(ctx context.Context, a, b Place) (bool, error) {
	source := func(p Place) feed.Source { return p.Account.Source(p.Database, p.Container, cosmos.SourceOptions{}) }
	return feed.SameContainer(ctx, source(a), source(b))
}

// create makes a database, if there is none, and a container in it.
func create(ctx context.Context, p Place, paths []string, ttl *int32) error {
	client := p.Account.Documents()
	if _, err := client.CreateDatabase(ctx, azcosmos.DatabaseProperties{ID: p.Database}, nil); err != nil && connect.Status(err) != http.StatusConflict {
		return fmt.Errorf("make database %s: %w", p.Database, err)
	}
	db, err := client.NewDatabase(p.Database)
	if err != nil {
		return err
	}
	key := azcosmos.PartitionKeyDefinition{Kind: azcosmos.PartitionKeyKindHash, Version: 2, Paths: paths}
	if len(paths) > 1 {
		key.Kind = azcosmos.PartitionKeyKindMultiHash
	}
	_, err = db.CreateContainer(ctx, azcosmos.ContainerProperties{ID: p.Container, PartitionKeyDefinition: key, DefaultTimeToLive: ttl}, nil)
	if err != nil && connect.Status(err) != http.StatusConflict {
		return fmt.Errorf("make container %s: %w", p, err)
	}
	return nil
}

// maxFind is how many ids are looked up by one query: its text is bounded.
const maxFind = 100

// lookUp finds documents of the target by their ids.
type lookUp struct {
	shape
	container *azcosmos.ContainerClient
}

func (l lookUp) find(ctx context.Context, ids []string) ([]found, error) {
	var all []found
	for chunk := range slices.Chunk(ids, maxFind) {
		query, options := l.query(chunk)
		pager := l.container.NewQueryItemsPager(query, azcosmos.NewPartitionKey(), options)
		for pager.More() {
			page, err := pager.NextPage(ctx)
			if connect.Status(err) == http.StatusNotFound {
				return nil, fmt.Errorf("%w: %w", feed.ErrNotFound, err)
			}
			if err != nil {
				return nil, err
			}
			for _, row := range page.Items {
				f, err := l.parseFound(row)
				if err != nil {
					return nil, err
				}
				all = append(all, f)
			}
		}
	}
	return all, nil
}

// query asks for the ids, the etags, and the members that keys begin with.
func (l lookUp) query(ids []string) (string, *azcosmos.QueryOptions) {
	names := []string{"c.id", "c._etag"}
	known := map[string]bool{"id": true, "_etag": true}
	for _, path := range slices.Concat(l.source, l.target) {
		if known[path[0]] {
			continue
		}
		known[path[0]] = true
		quoted, _ := json.Marshal(path[0]) // a string
		names = append(names, "c["+string(quoted)+"]")
	}
	options := &azcosmos.QueryOptions{}
	terms := make([]string, 0, len(ids))
	for i, id := range ids {
		name := fmt.Sprintf("@id%d", i)
		terms = append(terms, name)
		options.QueryParameters = append(options.QueryParameters, azcosmos.QueryParameter{Name: name, Value: id})
	}
	return "SELECT " + strings.Join(names, ", ") + " FROM c WHERE c.id IN (" + strings.Join(terms, ", ") + ")", options
}

// isEmpty reports whether a container has no document.
func isEmpty(ctx context.Context, c *azcosmos.ContainerClient) (bool, error) {
	pager := c.NewQueryItemsPager("SELECT TOP 1 c.id FROM c", azcosmos.NewPartitionKey(), nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return false, fmt.Errorf("is the target empty: %w", err)
		}
		if len(page.Items) > 0 {
			return false, nil
		}
	}
	return true, nil
}

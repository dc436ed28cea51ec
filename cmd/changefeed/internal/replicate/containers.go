package replicate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/internal/rest"
)

// Container is a container of an account.
type Container struct {
	Account             *connect.Opened
	Database, Container string
}

// documents returns a client of the container's documents.
func (p Container) documents() connect.ContainerDocuments {
	return p.Account.Documents().Container(p.Database, p.Container)
}

func (p Container) String() string { return p.Database + "/" + p.Container }

// ConfigError reports a configuration that cannot be run. Its text contains the remedy.
type ConfigError struct{ reason string }

func (e *ConfigError) Error() string { return e.reason }

func refuse(format string, args ...any) error {
	return &ConfigError{reason: fmt.Sprintf(format, args...)}
}

// described holds the properties of a container.
type described struct {
	connect.Properties
	paths []string
}

// describe reads a container's properties. It returns nil if the container does not
// exist.
func describe(ctx context.Context, p Container) (*described, error) {
	got, err := p.documents().Properties(ctx)
	if connect.Status(err) == http.StatusNotFound {
		return nil, nil //nolint:nilnil // nil means that the container does not exist
	}
	if err != nil {
		return nil, fmt.Errorf("read container %s: %w", p, err)
	}
	return &described{got, got.PartitionKey.Paths}, nil
}

// definition returns the partition key definition in a container's properties. Without a
// version, its hash has version 1.
func (d *described) definition() (definition, error) {
	key := d.PartitionKey
	paths, err := parseKeyPaths(key.Paths)
	return definition{paths, key.Kind != connect.MultiHash && key.Version < 2}, err
}

// prepare reads the properties of both containers. With Create it also creates a missing
// target, after all checks that need no target.
func (cfg Config) prepare(ctx context.Context) (source, target *described, err error) {
	if source, err = describe(ctx, cfg.From); err != nil {
		return nil, nil, err
	}
	if source == nil {
		return nil, nil, refuse("container %s does not exist in %s", cfg.From, cfg.From.Account.Settings)
	}
	for _, paths := range [][]string{source.paths, cfg.Key} {
		if _, err := parseKeyPaths(paths); err != nil {
			return nil, nil, refuse("a copy of container %s by key %s: %v", cfg.From, strings.Join(paths, ","), err)
		}
	}
	if cfg.Versions {
		if err := checkVersions(ctx, cfg.source()); err != nil {
			return nil, nil, err
		}
	}
	if target, err = describe(ctx, cfg.To); err != nil {
		return nil, nil, err
	}
	if target == nil && !cfg.Create {
		return nil, nil, refuse("container %s does not exist in %s; --create creates it", cfg.To, cfg.To.Account.Settings)
	}
	if target != nil {
		if err := cfg.fits(ctx, target); err != nil {
			return nil, nil, err
		}
	}
	leases, err := cfg.leasesApart(ctx, target)
	if err != nil {
		return nil, nil, err
	}
	cfg.made.leases = cfg.made.leases || leases == nil
	if target != nil {
		return source, target, cfg.spread(ctx)
	}
	if leases != nil {
		if err := cfg.unused(ctx); err != nil {
			return nil, nil, err
		}
	}
	if err := cfg.makeTarget(ctx, source); err != nil {
		return nil, nil, err
	}
	if target, err = describe(ctx, cfg.To); err != nil || target == nil {
		return nil, nil, errors.Join(fmt.Errorf("container %s was created but cannot be found", cfg.To), err)
	}
	return source, target, cfg.fits(ctx, target) // another process may have created it
}

// fits returns an error if the target is the source, or if its partition key is not the
// one in --key.
func (cfg Config) fits(ctx context.Context, target *described) error {
	if len(cfg.Key) > 0 && !slices.Equal(cfg.Key, target.paths) {
		return refuse("container %s has key %s, but --key is %s", cfg.To, strings.Join(target.paths, ","), strings.Join(cfg.Key, ","))
	}
	switch same, err := sameContainer(ctx, cfg.From, cfg.To); {
	case err != nil:
		return err
	case same:
		return refuse("%s is source and target: a container cannot be copied into itself", cfg.From)
	}
	return nil
}

// unused returns an error if the lease container has the state of a replication whose
// target no longer exists. Its leases record documents as copied that a new target would
// lack.
func (cfg Config) unused(ctx context.Context) error {
	was, err := cfg.states().read(ctx)
	if err != nil || was == nil {
		return err
	}
	return refuse("the leases belong to a replication into another container (rid %s), but %s does not exist yet%s", was.ToRID, cfg.To, was.way())
}

// leasesApart reads the properties of the lease container. It returns nil if the
// container does not exist yet.
//
// It returns an error if the lease container is also the source or the target. The source
// would then change with every checkpoint, and the copy would never catch up. In the
// target, copied documents could overwrite leases.
func (cfg Config) leasesApart(ctx context.Context, target *described) (leases *described, err error) {
	leases, err = describe(ctx, cfg.Leases)
	switch {
	case err != nil:
		return nil, err
	case leases == nil && !cfg.Create:
		return nil, refuse("lease container %s does not exist in %s; --create creates it, or name another with --leases and --lease-database", cfg.Leases, cfg.Leases.Account.Settings)
	}
	for _, side := range []struct {
		name      string
		container Container
		exists    bool
	}{{"source", cfg.From, true}, {"target", cfg.To, target != nil}} {
		same := false
		switch {
		case leases != nil && side.exists:
			if same, err = sameContainer(ctx, side.container, cfg.Leases); err != nil {
				return nil, err
			}
		case side.container.Account.Endpoint() == cfg.Leases.Account.Endpoint():
			same = side.container.String() == cfg.Leases.String() // one of the containers does not exist yet, so only names can be compared
		}
		if same {
			return nil, refuse("%s is the %s and the lease container; name another one with --leases", side.container, side.name)
		}
	}
	return leases, nil
}

// sameContainer reports whether a and b are one container, even if their accounts have
// different endpoints.
func sameContainer(ctx context.Context, a, b Container) (bool, error) {
	source := func(p Container) feed.Identifier {
		return p.Account.Source(p.Database, p.Container, cosmos.SourceOptions{})
	}
	return protocol.SameContainer(ctx, source(a), source(b))
}

// maxFind is the maximum number of ids in one look-up, because the text of a query has a
// maximum length.
const maxFind = 100

// lookUp is the finder for a container of an account. It finds documents by queries.
type lookUp struct {
	shape
	container connect.ContainerDocuments
}

func (l lookUp) find(ctx context.Context, ids []string) ([]found, error) {
	var all []found
	for chunk := range slices.Chunk(ids, maxFind) {
		query, parameters := l.query(chunk)
		for page, err := range l.container.Query(ctx, query, maxFind, parameters...) {
			if connect.Status(err) == http.StatusNotFound {
				return nil, fmt.Errorf("%w: %w", feed.ErrNotFound, err)
			}
			if err != nil {
				return nil, err
			}
			for _, row := range page.Documents {
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

// query returns a query for the documents with the given ids. It selects their ids, their
// etags, and the members at which key paths begin.
func (l lookUp) query(ids []string) (text string, parameters []rest.Parameter) {
	names := []string{"c.id", "c._etag"}
	known := map[string]bool{"id": true, "_etag": true}
	for _, path := range l.paths() {
		if known[path[0]] {
			continue
		}
		known[path[0]] = true
		quoted, _ := json.Marshal(path[0]) // a string
		names = append(names, "c["+string(quoted)+"]")
	}
	terms := make([]string, 0, len(ids))
	for i, id := range ids {
		name := fmt.Sprintf("@id%d", i)
		terms = append(terms, name)
		parameters = append(parameters, rest.Parameter{Name: name, Value: id})
	}
	return "SELECT " + strings.Join(names, ", ") + " FROM c WHERE c.id IN (" + strings.Join(terms, ", ") + ")", parameters
}

// isEmpty reports whether a container has no document. The query has no TOP, because the
// service refuses that over several partitions.
func isEmpty(ctx context.Context, c connect.ContainerDocuments) (bool, error) {
	for page, err := range c.Query(ctx, "SELECT c.id FROM c", 1) {
		if err != nil {
			return false, fmt.Errorf("check whether the target is empty: %w", err)
		}
		if len(page.Documents) > 0 {
			return false, nil
		}
	}
	return true, nil
}

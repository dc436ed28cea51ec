package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
)

const (
	database = "demo"
	// partitions is how many physical partitions the records' container and its
	// copy begin with.
	partitions = 4
	// processorName names the processor in the leases.
	processorName = "copy"
)

// place is a container with its name, for messages.
type place struct {
	*store.Container
	name string
}

// places are where a run reads, writes and keeps its leases.
type places struct {
	db             *store.DB
	source, target place
	leases         place
}

// prepare makes the database and the containers that are not there yet: a run
// that was killed is taken up wherever it was.
func prepare(ctx context.Context, db *store.DB, d dataset) (places, error) {
	if _, err := db.CreateDatabase(ctx, store.DatabaseProperties{ID: database}); err != nil && !errors.Is(err, store.ErrConflict) {
		return places{}, fmt.Errorf("make the database: %w", err)
	}
	at := places{db: db}
	for _, c := range []struct {
		to         *place
		name, key  string
		partitions int
	}{
		{&at.source, d.name, d.key, partitions},
		{&at.target, d.name + "-by-" + d.newKey, d.newKey, partitions},
		{&at.leases, d.name + "-leases", "id", 1},
	} {
		made, err := ensure(ctx, db, store.ContainerProperties{
			ID: c.name, KeyPaths: []string{keyPath(c.key)}, Partitions: c.partitions,
		})
		if err != nil {
			return places{}, fmt.Errorf("make container %s: %w", c.name, err)
		}
		*c.to = place{Container: made, name: c.name}
	}
	return at, nil
}

// ensure makes a container, or takes the one that is there if it has the same key.
func ensure(ctx context.Context, db *store.DB, p store.ContainerProperties) (*store.Container, error) {
	made, err := db.CreateContainer(ctx, database, p)
	if !errors.Is(err, store.ErrConflict) {
		return made, err
	}
	there, err := db.Container(ctx, database, p.ID)
	if err != nil {
		return nil, err
	}
	has, err := there.Properties(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Equal(has.KeyPaths, p.KeyPaths) {
		return nil, fmt.Errorf("it is there already and keyed by %s, not %s: use another --data, or the same fields as before",
			strings.Join(has.KeyPaths, " and "), p.KeyPaths[0])
	}
	return there, nil
}

// keyPath is the partition key path of a field of the documents.
func keyPath(field string) string {
	plain := func(r rune) bool {
		return r == '_' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
	}
	if strings.IndexFunc(field, func(r rune) bool { return !plain(r) }) < 0 {
		return "/" + field
	}
	quoted, err := json.Marshal(field)
	if err != nil { // a string always marshals
		return "/" + field
	}
	return "/" + string(quoted)
}

// keyOf is the logical partition key of a document in a container keyed by field.
func keyOf(body []byte, field string) (feed.PartitionKey, error) {
	var object map[string]any
	if err := json.Unmarshal(body, &object); err != nil {
		return nil, err
	}
	value, has := object[field]
	if !has {
		return feed.PartitionKey{feed.Undefined}, nil
	}
	return feed.PartitionKey{value}, nil
}

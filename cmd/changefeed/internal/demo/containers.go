package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
)

const (
	database = "demo"
	// partitions is the initial number of physical partitions of the records' container
	// and of its copy.
	partitions = 4
	// processorName names the processor in the leases.
	processorName = "copy"
)

// containers are the containers of a run: the records, their copy, the leases, and the letters.
type containers struct{ source, target, leases, letters container }

// ensureContainers creates the containers of a run that do not exist. Some exist already
// if an earlier run was killed.
func ensureContainers(ctx context.Context, db *store.DB, d dataset) (containers, error) {
	var all containers
	for _, c := range []struct {
		to         *container
		name, key  string
		partitions int
	}{
		{&all.source, d.name, d.key, partitions},
		{&all.target, d.name + "-by-" + d.newKey, d.newKey, partitions},
		{&all.leases, d.name + "-leases", "id", 1},
		{&all.letters, d.name + "-letters", "pk", 1},
	} {
		var err error
		if *c.to, err = ensureContainer(ctx, db, c.name, keyPath(c.key), c.partitions); err != nil {
			return all, fmt.Errorf("create container %s: %w", c.name, err)
		}
	}
	return all, nil
}

// keyPath returns the partition key path of a field of the documents.
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

// keyOf returns the logical partition key of a document in a container keyed by field.
func keyOf(body []byte, field string) (feed.PartitionKey, error) {
	var object map[string]json.RawMessage // another field's number may not fit into a float64
	if err := json.Unmarshal(body, &object); err != nil {
		return nil, err
	}
	raw, has := object[field]
	if !has {
		return feed.PartitionKey{feed.Undefined}, nil
	}
	var value any
	if err := json.Unmarshal(raw, &value); err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return feed.PartitionKey{value}, nil
}

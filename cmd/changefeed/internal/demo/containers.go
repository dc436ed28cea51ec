package demo

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
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
	container
	name string
}

// places are where a run reads, writes and keeps its leases.
type places struct {
	engine         engine
	source, target place
	leases         place
}

// leaseContainer is the places' lease container.
func (at places) leaseContainer() lease.Container {
	return at.engine.leases(at.leases.name, at.leases.container)
}

// prepare makes the containers that are not there yet: a run that was killed is
// taken up wherever it was.
func prepare(ctx context.Context, e engine, d dataset) (places, error) {
	at := places{engine: e}
	for _, c := range []struct {
		to         *place
		name, key  string
		partitions int
	}{
		{&at.source, d.name, d.key, partitions},
		{&at.target, d.name + "-by-" + d.newKey, d.newKey, partitions},
		{&at.leases, d.name + "-leases", "id", 1},
	} {
		made, err := e.ensure(ctx, c.name, keyPath(c.key), c.partitions)
		if err != nil {
			return places{}, fmt.Errorf("make container %s: %w", c.name, err)
		}
		*c.to = place{container: made, name: c.name}
	}
	return at, nil
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
	var object map[string]json.RawMessage // another field's number may be one that no float64 holds
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

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
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
)

// state is a replication's document in the lease container, beside the leases. It records
// the beginning of the replication for later runs and other processes. Its id does not
// begin with a processor's name and host, so that no processor takes it for a lease.
type state struct {
	ID string `json:"id"`
	// PartitionKey is the id, for a lease container that is partitioned by it.
	PartitionKey string `json:"partitionKey"`
	Version      int    `json:"version"`
	// FromRID and ToRID identify the containers. SourceKey and TargetKey are their
	// partition key paths.
	FromRID   string   `json:"fromRid"`
	ToRID     string   `json:"toRid"`
	SourceKey []string `json:"sourceKey"`
	TargetKey []string `json:"targetKey"`
	Mode      string   `json:"mode"`
	// TargetEmpty reports whether the target had no document when the replication began.
	// Ends are the last LSNs of the source's ranges at that time.
	TargetEmpty bool       `json:"targetEmpty"`
	Ends        []stateEnd `json:"ends"`
	// Copied reports whether all latest versions have been copied, in all versions and
	// deletes mode. All processes then apply changes.
	Copied bool `json:"copied"`

	// ETag is the document's etag.
	ETag string `json:"_etag,omitempty"`
}

// stateEnd is the JSON form of a [protocol.End]: a range of the source, and its last LSN.
type stateEnd struct {
	Min string `json:"min"`
	Max string `json:"max"`
	LSN int64  `json:"lsn"`
}

// ends returns the last LSNs of the source's ranges when the replication began.
func (st *state) ends() []protocol.End {
	all := make([]protocol.End, 0, len(st.Ends))
	for _, e := range st.Ends {
		all = append(all, protocol.End{Range: feed.Range{Min: e.Min, Max: e.Max}, LSN: e.LSN})
	}
	return all
}

const stateVersion = 1

// stateID returns the id of the state document for a processor name.
func stateID(processor string) string { return "replicate:" + processor }

// stateStore reads and writes the state document of one replication.
type stateStore struct {
	container connect.ContainerDocuments
	id        string
}

// states returns the stateStore of the replication.
func (cfg Config) states() stateStore {
	return stateStore{container: cfg.Leases.documents(), id: stateID(cfg.Processor)}
}

// key returns the partition key of the state document.
func (s stateStore) key(ctx context.Context) (feed.PartitionKey, error) {
	p, err := s.container.Properties(ctx)
	if err != nil || p.PartitionKey.SystemKey {
		return nil, err
	}
	return feed.PartitionKey{s.id}, nil
}

// read returns the state. It returns nil if there is none.
func (s stateStore) read(ctx context.Context) (*state, error) {
	var got connect.Document
	key, err := s.key(ctx)
	if err == nil {
		got, err = s.container.Read(ctx, key, s.id)
	}
	if connect.Status(err) == http.StatusNotFound {
		return nil, nil //nolint:nilnil // nil means that there is no state
	}
	if err != nil {
		return nil, fmt.Errorf("read the replication's state: %w", err)
	}
	var st state
	if err := json.Unmarshal(got.Body, &st); err != nil {
		return nil, fmt.Errorf("read the replication's state (document %q of the lease container): %w", s.id, err)
	}
	if st.Version != stateVersion {
		return nil, refuse("document %q of the lease container has version %d, but this program supports version %d", s.id, st.Version, stateVersion)
	}
	return &st, nil
}

// begin returns the existing state of the replication. If there is none, it calls first
// to complete want, and creates the state. It returns an error if the existing state is
// of another replication.
func (s stateStore) begin(ctx context.Context, want state, first func(ctx context.Context, st *state) error) (*state, error) {
	was, err := s.read(ctx)
	if err != nil {
		return nil, err
	}
	if was == nil {
		if err := first(ctx, &want); err != nil {
			return nil, err
		}
		want.ID, want.PartitionKey, want.Version = s.id, s.id, stateVersion
		body, err := json.Marshal(want)
		if err != nil {
			return nil, err
		}
		key, err := s.key(ctx)
		if err == nil {
			_, err = s.container.Create(ctx, key, body)
		}
		if err != nil && connect.Status(err) != http.StatusConflict {
			return nil, fmt.Errorf("write the replication's state: %w", err)
		}
		if was, err = s.read(ctx); err != nil || was == nil {
			return nil, errors.Join(err, errors.New("the replication's state was written but no longer exists"))
		}
	}
	return was, was.fits(want)
}

// way returns the end of an error text: the remedy if the leases belong to another
// replication.
func (st *state) way() string {
	return fmt.Sprintf("; use another --processor, or first delete the other replication's leases (`changefeed leases delete --all`) and its state, document %q of the lease container", st.ID)
}

// fits returns an error if the state is of another replication than want.
func (st *state) fits(want state) error {
	way := st.way()
	switch {
	case st.FromRID != want.FromRID:
		return refuse("the leases belong to a replication from another container (rid %s, not %s): was the container recreated?%s", st.FromRID, want.FromRID, way)
	case st.ToRID != want.ToRID:
		return refuse("the leases belong to a replication into another container (rid %s, not %s): was the container recreated?%s", st.ToRID, want.ToRID, way)
	case st.Mode != want.Mode:
		return refuse("the leases belong to a replication in mode %s, but this one is in mode %s%s", st.Mode, want.Mode, way)
	case !slices.Equal(st.TargetKey, want.TargetKey) || !slices.Equal(st.SourceKey, want.SourceKey):
		return refuse("the leases belong to a replication from key %s to %s, but this one is from %s to %s%s",
			strings.Join(st.SourceKey, ","), strings.Join(st.TargetKey, ","), strings.Join(want.SourceKey, ","), strings.Join(want.TargetKey, ","), way)
	}
	return nil
}

// copied records in the state document that all latest versions have been copied.
func (s stateStore) copied(ctx context.Context) error {
	for range maxAttempts {
		st, err := s.read(ctx)
		if err != nil {
			return err
		}
		if st == nil {
			return errors.New("the replication's state was deleted from the lease container")
		}
		if st.Copied {
			return nil
		}
		etag := st.ETag
		st.Copied, st.ETag = true, ""
		body, err := json.Marshal(st)
		if err != nil {
			return err
		}
		key, err := s.key(ctx)
		if err == nil {
			_, err = s.container.Replace(ctx, key, s.id, etag, body)
		}
		if err == nil {
			return nil
		}
		if connect.Status(err) != http.StatusPreconditionFailed {
			return fmt.Errorf("write the replication's state: %w", err)
		}
	}
	return errContended
}

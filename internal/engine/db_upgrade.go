package engine

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/internal/jsonscan"
)

// uniqueFormat is the first format whose container records have unique keys.
const uniqueFormat = 4

// upgradeBatch is the size, in bytes, at which a batch of an upgrade is written.
const upgradeBatch = 1 << 20

// upgrade upgrades the container records of older formats, before any other data is read.
// Up to format 3, unique keys were in the caller's Extra and were not enforced. upgrade
// moves them to the record and builds their index. It writes the record last, so the next
// opening resumes an upgrade that was interrupted.
func (db *DB) upgrade() error {
	return eachKey(db.pebble, []byte{spaceContainer}, func(key, value []byte) error {
		var r containerRecord
		if json.Unmarshal(value, &r) != nil || len(key) != containerKeySize || r.Format >= uniqueFormat {
			return nil // load returns an error for this record later
		}
		u := uniqueUpgrade{db: db, number: binary.BigEndian.Uint32(key[1:]), record: r, limit: upgradeBatch}
		if err := u.run(); err != nil {
			return fmt.Errorf("upgrade container %q: %w", r.ID, err)
		}
		return nil
	})
}

// uniqueUpgrade upgrades one container. It needs memory for one batch and one document
// only.
type uniqueUpgrade struct {
	db     *DB
	number uint32
	record containerRecord
	policy *uniquePolicy
	batch  *pebble.Batch
	// limit is the size in bytes at which a batch is written. items counts the indexed
	// documents.
	limit int
	items int
}

func (u *uniqueUpgrade) run() (err error) {
	u.record.Format = formatVersion
	u.record.UniqueKeys, err = keptUniqueKeys(u.record.Extra)
	if err == nil {
		u.policy, err = parseUniqueKeys(u.record.UniqueKeys)
	}
	log := u.db.options.Logger.With(slog.String("container", u.record.ID))
	if err != nil {
		u.record.UniqueKeys = nil
		log.Warn("unique key policy not enforced: it cannot be read; create another container with a valid one", slog.Any("error", err))
	}
	u.batch = u.db.pebble.NewBatch()
	defer func() { err = errors.Join(err, u.batch.Close()) }()
	if u.policy != nil {
		if err := u.index(); err != nil {
			return err
		}
	}
	record, err := json.Marshal(u.record)
	if err != nil {
		return fmt.Errorf("encode its record: %w", err)
	}
	err = errors.Join(
		u.batch.Delete(uniqueProgressKey(u.number), nil),
		u.batch.Set(containerKey(u.number), record, nil),
		u.commit(pebble.Sync),
	)
	if err != nil || u.policy == nil {
		return err
	}
	return u.report(log)
}

// commit writes the batch. On a full disk it returns the disk's error, where Pebble alone
// would wait forever.
func (u *uniqueUpgrade) commit(o *pebble.WriteOptions) error {
	if err := u.db.pebble.refusal(); err != nil {
		return err
	}
	return u.batch.Commit(o)
}

// index adds entries to the index of unique keys for all documents in the log. When the
// batch has reached its limit, index also adds the key of the last document to it, and
// writes it. After a crash, an upgrade resumes after that key. Only the last batch is
// synced, because the write-ahead log preserves the order of batches.
func (u *uniqueUpgrade) index() error {
	lower := appendContainerKey(nil, spaceLog, u.number)
	upper := successor(lower)
	done, err := getValue(u.db.pebble, uniqueProgressKey(u.number))
	if ignoreNotFound(err) != nil {
		return err
	}
	if err == nil {
		lower = append(done, 0)
	}
	it, err := u.db.pebble.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() { _ = it.Close() }() // Close returns no other error than the loop
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if err := u.add(it.Key(), value); err != nil {
			return err
		}
		if u.batch.Len() < u.limit {
			continue
		}
		if err := u.batch.Set(uniqueProgressKey(u.number), it.Key(), nil); err != nil {
			return err
		}
		if err := u.commit(pebble.NoSync); err != nil {
			return err
		}
		u.batch.Reset()
	}
	return it.Error()
}

// add adds an index entry for each unique key of one document to the batch. key and value
// are the document's log entry.
func (u *uniqueUpgrade) add(key, value []byte) error {
	if len(key) < logKeySize || len(value) < logHeaderSize {
		return corrupt("the log entry %x has %d bytes", key, len(value))
	}
	stored := value[logHeaderSize:]
	id, err := storedID(stored)
	if err != nil {
		return corrupt("the document at LSN %d: %v", logLSN(key), err)
	}
	digests, err := u.policy.digests(stored)
	if err != nil {
		return corrupt("the document at LSN %d: %v", logLSN(key), err)
	}
	point := logPoint(key)
	for i, d := range digests {
		if err := setUniqueEntry(u.batch, appendUniquePrefix(nil, u.number, point, i, d), id, len(point)); err != nil {
			return err
		}
	}
	u.items++
	return nil
}

// report logs that the index is complete. It also logs a warning if there are items with
// equal values.
func (u *uniqueUpgrade) report(log *slog.Logger) error {
	log.Info("index of unique keys built", slog.Int("items", u.items))
	var first *UniqueKeyError
	n := 0
	// Expired items are included, because the store's clock, which decides the expiry, is
	// not set yet.
	scan := uniqueScan{r: u.db.pebble, container: u.number, name: u.record.ID, policy: u.policy}
	err := scan.clashes(func() error { return nil }, func(e *UniqueKeyError) bool {
		if n++; first == nil {
			first = e
		}
		return true
	})
	if first != nil {
		log.Warn("unique key policy broken by items of an older release; writes to them fail until their values are changed",
			slog.Int("items", n), slog.Any("first", first))
	}
	return err
}

// idPath finds the id in a stored document, as if it were the only path of a unique key.
var idPath = &uniquePolicy{count: 1, root: pathNode{index: -1, children: []*pathNode{{name: "id", index: 0}}}}

// storedID returns the id of a stored document.
func storedID(stored []byte) (string, error) {
	values, err := idPath.values(stored)
	if err != nil {
		return "", err
	}
	id, err := jsonscan.New(values[0], 1).Text()
	return id.String(), err
}

// keptUniqueKeys returns the unique keys in the Extra that the server of an older release
// stored for a container: resource.uniqueKeyPolicy.uniqueKeys[].paths.
func keptUniqueKeys(extra []byte) ([][]string, error) {
	var kept struct {
		Resource struct {
			Policy json.RawMessage `json:"uniqueKeyPolicy"`
		} `json:"resource"`
	}
	if json.Unmarshal(extra, &kept) != nil || len(kept.Resource.Policy) == 0 {
		return nil, nil // Extra is empty, or another program has written it
	}
	var policy struct {
		UniqueKeys []struct {
			Paths []string `json:"paths"`
		} `json:"uniqueKeys"`
	}
	if err := json.Unmarshal(kept.Resource.Policy, &policy); err != nil {
		return nil, err
	}
	var keys [][]string
	for _, k := range policy.UniqueKeys {
		keys = append(keys, k.Paths)
	}
	return keys, nil
}

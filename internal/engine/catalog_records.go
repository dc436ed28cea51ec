package engine

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/changefeed-go/changefeed/internal/layout"
	"github.com/changefeed-go/changefeed/storetype"
)

// Record is a small JSON text of the caller that belongs to a database. It is found by
// its name and deleted with the database. The store does not interpret it.
type Record struct {
	// Name is unique among the database's records. The rules are those for names of
	// containers.
	Name string
	// Value is JSON text of at most [MaxExtraSize] bytes. The store returns it byte for
	// byte.
	Value json.RawMessage
	// Number is assigned by the store, from 1, and never used again in the store. It does
	// not change when the record is renamed.
	Number uint32
	// ETag identifies the last write. Modified is the time of the last write.
	ETag     string
	Modified time.Time
}

// maxRecordNumber is the highest number of a record. A server can make resource ids from
// the numbers of records and containers. In such an id, the next higher bit marks a
// container.
const maxRecordNumber = 1<<31 - 1

// storedRecord is the JSON form in which a record is stored under its number.
type storedRecord struct {
	Name     string `json:"name"`
	Value    []byte `json:"value"`
	Modified int64  `json:"modified"`
	Revision uint64 `json:"revision"`
}

func (db *DB) publicRecord(s storedRecord, number uint32) Record {
	return Record{
		Name: s.Name, Value: s.Value, Number: number,
		ETag: db.etagOf(number, s.Revision, s.Modified), Modified: unixTime(s.Modified),
	}
}

// Each record of a database has two keys, which these bytes distinguish: one by its
// number and one by its name.
const (
	recordByNumber = 'n' // the key ends with the number; the value is the record
	recordByName   = 't' // the key ends with the name; the value is the number

	recordKeySize = layout.ContainerKeySize + 1 + 4 // the size of a key by number
)

func recordPrefix(database uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{layout.SpaceRecord}, database)
}

func recordKey(database, number uint32) []byte {
	return binary.BigEndian.AppendUint32(append(recordPrefix(database), recordByNumber), number)
}

func recordNameKey(database uint32, name string) []byte {
	return append(append(recordPrefix(database), recordByName), name...)
}

// validate checks the name and the value of a record from a caller.
func (r Record) validate() error {
	if err := checkName(r.Name); err != nil {
		return err
	}
	if r.Value == nil {
		return layout.BadRequest(storetype.BadProperties, "the record %q has no value", r.Name)
	}
	return checkExtra(r.Value)
}

// CreateRecord creates a record with the Name and Value of r. It returns [storetype.ErrConflict]
// if the database has a record of that name. It returns an error that wraps feed.ErrNotFound if
// the database does not exist, and a *[storetype.BadRequestError] or a
// *[storetype.TooLargeError] if r is not valid.
func (db *DB) CreateRecord(ctx context.Context, database string, r Record) (Record, error) {
	if err := r.validate(); err != nil {
		return Record{}, err
	}
	value := slices.Clone(r.Value)
	return db.changeRecord(ctx, database, func(g *group, d uint32) (Record, error) {
		if err := g.checkRecordIsNew(d, r.Name); err != nil {
			return Record{}, err
		}
		if db.numbers.Record >= maxRecordNumber {
			return Record{}, layout.BadRequest(storetype.BadProperties, "the store has used all of its %d record numbers", maxRecordNumber)
		}
		db.numbers.Record++
		if err := g.putNumbers(); err != nil {
			return Record{}, err
		}
		return g.putRecord(d, db.numbers.Record, storedRecord{Name: r.Name, Value: value, Revision: 1})
	})
}

// ReplaceRecord replaces the name and the value of the record name with those of r. It returns
// an error that wraps feed.ErrNotFound if there is no such record. It returns
// [storetype.ErrPreconditionFailed] if r.ETag is neither empty, nor "*", nor the record's. It
// returns [storetype.ErrConflict] if another record has r.Name, and a
// *[storetype.BadRequestError] or a *[storetype.TooLargeError] if r is not valid.
func (db *DB) ReplaceRecord(ctx context.Context, database, name string, r Record) (Record, error) {
	if err := r.validate(); err != nil {
		return Record{}, err
	}
	value := slices.Clone(r.Value)
	return db.changeRecord(ctx, database, func(g *group, d uint32) (Record, error) {
		number, old, err := g.findRecord(d, name, r.ETag)
		if err != nil {
			return Record{}, err
		}
		if r.Name != name {
			if err := g.checkRecordIsNew(d, r.Name); err != nil {
				return Record{}, err
			}
			if err := g.deleteRecordKey(recordNameKey(d, name)); err != nil {
				return Record{}, err
			}
		}
		return g.putRecord(d, number, storedRecord{Name: r.Name, Value: value, Revision: old.Revision + 1})
	})
}

// DeleteRecord deletes a record. It returns an error that wraps feed.ErrNotFound if there
// is no such record. It returns [storetype.ErrPreconditionFailed] if etag is neither empty, nor
// "*", nor the record's.
func (db *DB) DeleteRecord(ctx context.Context, database, name, etag string) error {
	_, err := db.changeRecord(ctx, database, func(g *group, d uint32) (Record, error) {
		number, _, err := g.findRecord(d, name, etag)
		if err != nil {
			return Record{}, err
		}
		return Record{}, errors.Join(g.deleteRecordKey(recordNameKey(d, name)), g.deleteRecordKey(recordKey(d, number)))
	})
	return err
}

// changeRecord makes the sequencer call change with the number of a database. It returns
// the changed record.
func (db *DB) changeRecord(ctx context.Context, database string, change func(g *group, database uint32) (Record, error)) (r Record, err error) {
	err = db.do(ctx, func(g *group) error {
		d := g.currentCatalog().databases[database]
		if d == nil {
			return notFound("database %q", database)
		}
		r, err = change(g, d.number)
		return err
	})
	if err != nil {
		return Record{}, err
	}
	r.Value = slices.Clone(r.Value)
	return r, nil
}

// Record returns the record name. It returns an error that wraps feed.ErrNotFound if
// there is no such record.
func (db *DB) Record(ctx context.Context, database, name string) (Record, error) {
	v, d, err := db.openDatabase(ctx, database)
	if err != nil {
		return Record{}, err
	}
	defer v.release()
	b, err := getValue(v.snap, recordNameKey(d.number, name))
	var number uint32
	if err == nil {
		number, err = decodeRecordNumber(b)
	}
	if err != nil {
		return Record{}, db.recordFault(err, "record %q of database %q", name, database)
	}
	return db.readRecord(v.snap, d.number, number, "record %q of database %q", name, database)
}

// RecordByNumber returns the record with a number. It returns an error that wraps
// feed.ErrNotFound if there is no such record.
func (db *DB) RecordByNumber(ctx context.Context, database string, number uint32) (Record, error) {
	v, d, err := db.openDatabase(ctx, database)
	if err != nil {
		return Record{}, err
	}
	defer v.release()
	return db.readRecord(v.snap, d.number, number, "record number %d of database %q", number, database)
}

// Records returns the records of a database, sorted by number.
func (db *DB) Records(ctx context.Context, database string) ([]Record, error) {
	v, d, err := db.openDatabase(ctx, database)
	if err != nil {
		return nil, err
	}
	defer v.release()
	var all []Record
	err = eachKey(v.snap, append(recordPrefix(d.number), recordByNumber), func(key, value []byte) error {
		if err := ctx.Err(); err != nil {
			return err
		}
		r, err := db.decodeRecord(key, value)
		all = append(all, r)
		return err
	})
	if err != nil {
		return nil, db.fault(err)
	}
	return all, nil
}

// recordFault returns the error to report for err, the error of reading a record. If the
// record is missing, the error names the record by format and args, and wraps
// feed.ErrNotFound.
func (db *DB) recordFault(err error, format string, args ...any) error {
	if errors.Is(err, pebble.ErrNotFound) {
		return notFound(format, args...)
	}
	return db.fault(err)
}

// readRecord reads the record with a number. If it is missing, the error names the record
// by format and args.
func (db *DB) readRecord(r pebble.Reader, database, number uint32, format string, args ...any) (Record, error) {
	key := recordKey(database, number)
	b, err := getValue(r, key)
	var record Record
	if err == nil {
		record, err = db.decodeRecord(key, b)
	}
	if err != nil {
		return Record{}, db.recordFault(err, format, args...)
	}
	return record, nil
}

// decodeRecord decodes a stored record. The result shares no memory with value.
func (db *DB) decodeRecord(key, value []byte) (Record, error) {
	var s storedRecord
	if err := json.Unmarshal(value, &s); err != nil || len(key) != recordKeySize {
		return Record{}, layout.Corrupt("record %x: %v", key, err)
	}
	return db.publicRecord(s, binary.BigEndian.Uint32(key[recordKeySize-4:])), nil
}

func decodeRecordNumber(b []byte) (uint32, error) {
	if len(b) != 4 {
		return 0, layout.Corrupt("the number of a record has %d bytes, not 4", len(b))
	}
	return binary.BigEndian.Uint32(b), nil
}

// getRecordKey returns the value of a record's key, as the group sees it after its own
// changes. It returns pebble.ErrNotFound if the key does not exist.
func (g *group) getRecordKey(key []byte) ([]byte, error) {
	if b, changed := g.records[string(key)]; changed {
		if b == nil {
			return nil, pebble.ErrNotFound
		}
		return b, nil
	}
	b, err := getValue(g.db.pebble, key)
	if err != nil && !errors.Is(err, pebble.ErrNotFound) {
		err = g.db.fault(err)
	}
	return b, err
}

func (g *group) setRecordKey(key, value []byte) error {
	if g.records == nil {
		g.records = map[string][]byte{}
	}
	g.records[string(key)] = value
	return g.batch.Set(key, value, nil)
}

func (g *group) deleteRecordKey(key []byte) error {
	if g.records == nil {
		g.records = map[string][]byte{}
	}
	g.records[string(key)] = nil
	return g.batch.Delete(key, nil)
}

// recordNumber returns the number of the record with a name. It returns
// pebble.ErrNotFound if there is none.
func (g *group) recordNumber(database uint32, name string) (uint32, error) {
	b, err := g.getRecordKey(recordNameKey(database, name))
	if err != nil {
		return 0, err
	}
	number, err := decodeRecordNumber(b)
	if err != nil {
		return 0, g.db.fault(err)
	}
	return number, nil
}

// checkRecordIsNew returns an error that wraps [storetype.ErrConflict] if the database has a record
// with the name.
func (g *group) checkRecordIsNew(database uint32, name string) error {
	_, err := g.recordNumber(database, name)
	if err == nil {
		return fmt.Errorf("record %q: %w", name, storetype.ErrConflict)
	}
	return ignoreNotFound(err)
}

// findRecord returns the number and the stored form of the record with a name. It returns
// [storetype.ErrPreconditionFailed] if etag is neither empty, nor "*", nor the record's.
func (g *group) findRecord(database uint32, name, etag string) (number uint32, s storedRecord, err error) {
	if number, err = g.recordNumber(database, name); err != nil {
		if errors.Is(err, pebble.ErrNotFound) {
			err = notFound("record %q", name)
		}
		return 0, s, err
	}
	b, err := g.getRecordKey(recordKey(database, number))
	if err != nil {
		return 0, s, err
	}
	if err := json.Unmarshal(b, &s); err != nil {
		return 0, s, g.db.fault(layout.Corrupt("record %d: %v", number, err))
	}
	if etag != "" && etag != "*" && etag != g.db.publicRecord(s, number).ETag {
		return 0, s, fmt.Errorf("%w: record %q has another etag", storetype.ErrPreconditionFailed, name)
	}
	return number, s, nil
}

// putRecord sets the record's Modified and writes both of its keys. It returns the record
// as a caller sees it.
func (g *group) putRecord(database, number uint32, s storedRecord) (Record, error) {
	s.Modified = g.ts
	b, err := json.Marshal(s)
	if err != nil {
		return Record{}, fmt.Errorf("encode record %q: %w", s.Name, err)
	}
	name := binary.BigEndian.AppendUint32(nil, number)
	return g.db.publicRecord(s, number), errors.Join(g.setRecordKey(recordKey(database, number), b), g.setRecordKey(recordNameKey(database, s.Name), name))
}

// deleteRecords deletes all records of a database. The group must also delete the
// database from the catalog, because getRecordKey does not see this deletion.
func (g *group) deleteRecords(database uint32) error {
	prefix := recordPrefix(database)
	return g.batch.DeleteRange(prefix, layout.Successor(prefix), nil)
}

// checkRecords verifies that every record belongs to a database, has a number up to last,
// and can be found by its name. Every name must belong to a record.
func (k *checker) checkRecords(databases map[uint32]bool, last uint32) error {
	names := map[string]uint32{} // the number of each record, by the key of its name
	err := eachKey(k.v.snap, []byte{layout.SpaceRecord}, func(key, value []byte) error {
		if len(key) < layout.ContainerKeySize+1 || !databases[binary.BigEndian.Uint32(key[1:])] {
			return k.report("record %.40x belongs to a database that is not there", key)
		}
		if key[layout.ContainerKeySize] == recordByName {
			return nil
		}
		r, err := k.db.decodeRecord(key, value)
		switch {
		case err != nil || key[layout.ContainerKeySize] != recordByNumber:
			return k.report("record %.40x cannot be read: %v", key, err)
		case r.Number == 0 || r.Number > last:
			return k.report("record number %d is above the last assigned one, %d", r.Number, last)
		}
		names[string(recordNameKey(binary.BigEndian.Uint32(key[1:]), r.Name))] = r.Number
		return k.step()
	})
	if err != nil {
		return err
	}
	err = eachKey(k.v.snap, []byte{layout.SpaceRecord}, func(key, value []byte) error {
		if len(key) < layout.ContainerKeySize+1 || key[layout.ContainerKeySize] != recordByName {
			return nil
		}
		n, err := decodeRecordNumber(value)
		if err != nil || n == 0 || names[string(key)] != n {
			return k.report("name %.80q refers to record %d, which does not have it", key[layout.ContainerKeySize+1:], n)
		}
		delete(names, string(key))
		return nil
	})
	if err == nil && len(names) > 0 {
		err = k.report("%d records cannot be found by name", len(names))
	}
	return err
}

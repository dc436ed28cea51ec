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
)

// Record is a small text of the caller's own that belongs to a database, is found by its name, and is deleted with the database. The
// store knows nothing of what it says.
type Record struct {
	// Name is unique among the database's records. What it may be is what a container's name may be.
	Name string
	// Value is any JSON text, at most [MaxExtraSize] bytes. It comes back byte for byte.
	Value json.RawMessage
	// Number is the store's own, from 1 up, and never given again in the store. It stays when the record gets another name.
	Number uint32
	// ETag is that of the last write, and Modified its time.
	ETag     string
	Modified time.Time
}

// maxRecordNumber is the highest number that a record can have: the bit above marks a container where rids are made of both.
const maxRecordNumber = 1<<31 - 1

// storedRecord is a record as it is on disk.
type storedRecord struct {
	Name     string `json:"name"`
	Value    []byte `json:"value"`
	Modified int64  `json:"modified"`
	Revision uint64 `json:"revision"`
}

func (s storedRecord) public(number uint32) Record {
	return Record{
		Name: s.Name, Value: s.Value, Number: number,
		ETag: etagOf(number, s.Revision, s.Modified), Modified: unixTime(s.Modified),
	}
}

// The two kinds of keys within a database's records.
const (
	recordByNumber = 'n' // number u32 -> the record, JSON
	recordByName   = 't' // name -> number u32

	recordKeySize = containerKeySize + 1 + 4 // of a key by number
)

func recordPrefix(database uint32) []byte {
	return binary.BigEndian.AppendUint32([]byte{spaceRecord}, database)
}

func recordKey(database, number uint32) []byte {
	return binary.BigEndian.AppendUint32(append(recordPrefix(database), recordByNumber), number)
}

func recordNameKey(database uint32, name string) []byte {
	return append(append(recordPrefix(database), recordByName), name...)
}

// validate judges a record that comes in.
func (r Record) validate() error {
	if err := checkName(r.Name); err != nil {
		return err
	}
	if r.Value == nil {
		return badRequest(BadProperties, "the record %q has no value", r.Name)
	}
	return checkExtra(r.Value)
}

// CreateRecord makes a record; of r, Name and Value are looked at. Errors: [ErrConflict], when there is one of that name;
// one that wraps feed.ErrNotFound, when there is no such database; *[BadRequestError]; *[TooLargeError].
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
			return Record{}, badRequest(BadProperties, "the store has given out all of its %d numbers of records", maxRecordNumber)
		}
		db.numbers.Record++
		if err := g.putNumbers(); err != nil {
			return Record{}, err
		}
		return g.putRecord(d, db.numbers.Record, storedRecord{Name: r.Name, Value: value, Revision: 1})
	})
}

// ReplaceRecord puts r.Name and r.Value in the place of those of the record name. Errors: one that wraps feed.ErrNotFound;
// [ErrPreconditionFailed], when r.ETag is neither empty nor "*" and isn't the record's any more; [ErrConflict], when another record
// has r.Name; *[BadRequestError]; *[TooLargeError].
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

// DeleteRecord deletes a record. Errors: one that wraps feed.ErrNotFound; [ErrPreconditionFailed], when etag is neither empty nor "*"
// and isn't the record's any more.
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

// changeRecord has the sequencer carry out a change of a database's records.
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

// Record returns a record, or an error that wraps feed.ErrNotFound.
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

// RecordByNumber returns the record of a number, or an error that wraps feed.ErrNotFound.
func (db *DB) RecordByNumber(ctx context.Context, database string, number uint32) (Record, error) {
	v, d, err := db.openDatabase(ctx, database)
	if err != nil {
		return Record{}, err
	}
	defer v.release()
	return db.readRecord(v.snap, d.number, number, "record number %d of database %q", number, database)
}

// Records returns the records of a database, by number.
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
		r, err := decodeRecord(key, value)
		all = append(all, r)
		return err
	})
	if err != nil {
		return nil, db.fault(err)
	}
	return all, nil
}

// recordFault makes an error of a record that can't be read.
func (db *DB) recordFault(err error, format string, args ...any) error {
	if errors.Is(err, pebble.ErrNotFound) {
		return notFound(format, args...)
	}
	return db.fault(err)
}

// readRecord reads the record of a number. The rest of the arguments name it in an error.
func (db *DB) readRecord(r pebble.Reader, database, number uint32, format string, args ...any) (Record, error) {
	key := recordKey(database, number)
	b, err := getValue(r, key)
	var record Record
	if err == nil {
		record, err = decodeRecord(key, b)
	}
	if err != nil {
		return Record{}, db.recordFault(err, format, args...)
	}
	return record, nil
}

// decodeRecord reads a record as it is stored; nothing of it is the caller's bytes.
func decodeRecord(key, value []byte) (Record, error) {
	var s storedRecord
	if err := json.Unmarshal(value, &s); err != nil || len(key) != recordKeySize {
		return Record{}, corrupt("record %x: %v", key, err)
	}
	return s.public(binary.BigEndian.Uint32(key[recordKeySize-4:])), nil
}

func decodeRecordNumber(b []byte) (uint32, error) {
	if len(b) != 4 {
		return 0, corrupt("the number of a record has %d bytes, not 4", len(b))
	}
	return binary.BigEndian.Uint32(b), nil
}

// getRecordKey reads a key of a record as the group has left it so far; pebble.ErrNotFound: it isn't there.
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

// recordNumber finds the number of a name; pebble.ErrNotFound: there is none.
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

// checkRecordIsNew returns ErrConflict if a database has a record of that name.
func (g *group) checkRecordIsNew(database uint32, name string) error {
	_, err := g.recordNumber(database, name)
	if err == nil {
		return fmt.Errorf("record %q: %w", name, ErrConflict)
	}
	return ignoreNotFound(err)
}

// findRecord finds a record that is to be changed if it still has an etag.
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
		return 0, s, g.db.fault(corrupt("record %d: %v", number, err))
	}
	if etag != "" && etag != "*" && etag != s.public(number).ETag {
		return 0, s, fmt.Errorf("%w: record %q has another etag", ErrPreconditionFailed, name)
	}
	return number, s, nil
}

// putRecord writes a record under its number and its name.
func (g *group) putRecord(database, number uint32, s storedRecord) (Record, error) {
	s.Modified = g.ts
	b, err := json.Marshal(s)
	if err != nil {
		return Record{}, fmt.Errorf("encode record %q: %w", s.Name, err)
	}
	name := binary.BigEndian.AppendUint32(nil, number)
	return s.public(number), errors.Join(g.setRecordKey(recordKey(database, number), b), g.setRecordKey(recordNameKey(database, s.Name), name))
}

// deleteRecords deletes all records of a database. Nothing can be asked of them in the same group: the database is gone from the catalog.
func (g *group) deleteRecords(database uint32) error {
	prefix := recordPrefix(database)
	return g.batch.DeleteRange(prefix, successor(prefix), nil)
}

// checkRecords compares the records with their names and with the databases.
func (k *checker) checkRecords(databases map[uint32]bool, last uint32) error {
	names := map[string]uint32{} // by the keys of the names that records have
	err := eachKey(k.v.snap, []byte{spaceRecord}, func(key, value []byte) error {
		if len(key) < containerKeySize+1 || !databases[binary.BigEndian.Uint32(key[1:])] {
			return k.report("record %.40x belongs to a database that is not there", key)
		}
		if key[containerKeySize] == recordByName {
			return nil
		}
		r, err := decodeRecord(key, value)
		switch {
		case err != nil || key[containerKeySize] != recordByNumber:
			return k.report("record %.40x can't be read: %v", key, err)
		case r.Number == 0 || r.Number > last:
			return k.report("record number %d is above the last one given, %d", r.Number, last)
		}
		names[string(recordNameKey(binary.BigEndian.Uint32(key[1:]), r.Name))] = r.Number
		return k.step()
	})
	if err != nil {
		return err
	}
	err = eachKey(k.v.snap, []byte{spaceRecord}, func(key, value []byte) error {
		if len(key) < containerKeySize+1 || key[containerKeySize] != recordByName {
			return nil
		}
		n, err := decodeRecordNumber(value)
		if err != nil || n == 0 || names[string(key)] != n {
			return k.report("the name %.80q leads to record %d, which hasn't it", key[containerKeySize+1:], n)
		}
		delete(names, string(key))
		return nil
	})
	if err == nil && len(names) > 0 {
		err = k.report("%d records can't be found by their names", len(names))
	}
	return err
}

package demo

import (
	"bufio"
	"bytes"
	"compress/gzip"
	_ "embed" // embeds the flights
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/changefeed-go/changefeed/storetype"
)

// flights are 20,000 US domestic flights of 2001: date, delay, distance, origin
// and destination. Source: US Bureau of Transportation Statistics (public
// domain), as packaged in vega-datasets 3.2.1.
//
//go:embed flights-20k.json.gz
var flights []byte

// revision is the field that the demo adds to every record: 1 at first, and one
// more with each update.
const revision = "demo_revision"

// maxRecord is the maximum size of a record, in bytes. It is the maximum size of a
// document without the members that the first container adds, because the copy contains
// them.
const maxRecord = storetype.MaxDocumentSize - 1<<10

// record is one document to move.
type record struct {
	id   string
	body []byte
}

// dataset is the set of records to move, with the partition keys of both containers.
type dataset struct {
	name        string
	records     []record
	key, newKey string
	ids         string // a description of where the ids come from, for messages
}

// load reads the records that cfg names, and checks that they can be moved.
func load(cfg Config) (dataset, error) {
	d := dataset{name: "flights", key: cfg.Key, newKey: cfg.NewKey}
	var in io.Reader
	if cfg.Input == "" {
		unpacked, err := gzip.NewReader(bytes.NewReader(flights))
		if err != nil {
			return d, fmt.Errorf("unpack the flights: %w", err)
		}
		in = unpacked
	} else {
		file, err := os.Open(cfg.Input)
		if err != nil {
			return d, fmt.Errorf("--input: %w", err)
		}
		defer func() { _ = file.Close() }() // the file was only read
		in = file
		d.name = containerName(cfg.Input)
	}
	read := reader{cfg: cfg, seen: make(map[string]int)}
	if err := eachObject(in, read.add); err != nil && !errors.Is(err, errEnough) {
		return d, fmt.Errorf("%s: %w", sourceName(cfg), err)
	}
	d.records = read.records
	if len(d.records) == 0 {
		return d, fmt.Errorf("%s has no records", sourceName(cfg))
	}
	if cfg.Records > len(d.records) {
		return d, fmt.Errorf("--records is %d, but there are only %d in %s", cfg.Records, len(d.records), sourceName(cfg))
	}
	d.ids = read.idField
	if d.ids == "" {
		d.ids = "row number"
	}
	if d.newKey == "" {
		d.newKey = "id"
	}
	return d, nil
}

func sourceName(cfg Config) string {
	if cfg.Input == "" {
		return "the flights"
	}
	return "--input " + cfg.Input
}

// containerName derives the name of a container from the path of an input file.
func containerName(path string) string {
	base := filepath.Base(path)
	base = strings.TrimSuffix(base, filepath.Ext(base))
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune(`/\?#`, r) || r < ' ' {
			return '-'
		}
		return r
	}, base)
	if name = strings.TrimSpace(name); name == "" {
		return "records"
	}
	return name
}

// reader converts JSON objects to records.
type reader struct {
	cfg     Config
	records []record
	// idField is the field whose value is a record's ID. If empty, the row number is the
	// ID.
	idField string
	// seen holds the row number of each ID so far, to report an ID that occurs twice.
	seen map[string]int
}

// errEnough ends the reading when the number of records in --records is reached.
var errEnough = errors.New("enough records")

func (r *reader) add(object map[string]json.RawMessage) error {
	row := len(r.records) + 1
	if row == 1 {
		r.idField = r.cfg.ID
		if _, has := object["id"]; has && r.idField == "" {
			r.idField = "id"
		}
	}
	if _, has := object[revision]; has {
		return fmt.Errorf("record %d has a field %s, which the demo adds itself", row, revision)
	}
	id, err := r.identify(object, row)
	if err != nil {
		return err
	}
	if first, has := r.seen[id]; has {
		return fmt.Errorf("records %d and %d have the same id %q", first, row, id)
	}
	r.seen[id] = row
	for _, f := range []struct{ field, flag string }{{r.cfg.Key, "--key"}, {r.cfg.NewKey, "--new-key"}} {
		if err := checkKey(object, f.field, f.flag, row); err != nil {
			return err
		}
	}
	body, err := json.Marshal(object)
	if err != nil {
		return fmt.Errorf("record %d: %w", row, err)
	}
	if len(body) > maxRecord {
		return fmt.Errorf("record %d has %d bytes, but the maximum is %d", row, len(body), maxRecord)
	}
	r.records = append(r.records, record{id: id, body: body})
	if row == r.cfg.Records {
		return errEnough
	}
	return nil
}

// identify sets the id and the revision of a record in its JSON object, and returns the
// id.
func (r *reader) identify(object map[string]json.RawMessage, row int) (string, error) {
	id := strconv.Itoa(row)
	if r.idField != "" {
		raw, has := object[r.idField]
		if !has {
			return "", fmt.Errorf("record %d has no field %q, which is the id of the others (--id)", row, r.idField)
		}
		var err error
		if id, err = idOf(raw); err != nil {
			return "", fmt.Errorf("record %d: %s is %s: %w", row, r.idField, shorten(raw), err)
		}
	}
	if _, has := object["id"]; has && r.idField != "id" {
		return "", fmt.Errorf("record %d also has a field \"id\": use --id id", row)
	}
	quoted, err := json.Marshal(id)
	if err != nil {
		return "", fmt.Errorf("record %d: %w", row, err)
	}
	object["id"], object[revision] = quoted, json.RawMessage("1")
	return id, nil
}

// idOf converts the value of the ID field to a document id. It returns an error unless
// the value is a string or an integer.
func idOf(raw json.RawMessage) (string, error) {
	var value any
	decode := json.NewDecoder(bytes.NewReader(raw))
	decode.UseNumber()
	if err := decode.Decode(&value); err != nil {
		return "", err
	}
	var id string
	switch v := value.(type) {
	case string:
		id = v
	case json.Number:
		id = v.String()
	default:
		return "", errors.New("an id must be a text or a number")
	}
	if id == "" || len(id) > 1023 || strings.ContainsAny(id, `/\?#`) {
		return "", errors.New(`an id must have 1 to 1023 bytes and none of / \ ? #`)
	}
	return id, nil
}

// checkKey returns an error if a field of a record cannot be a partition key. flag is the
// flag that named the field, for the error text.
func checkKey(object map[string]json.RawMessage, field, flag string, row int) error {
	if field == "" {
		return nil
	}
	value, has := object[field]
	if !has {
		return fmt.Errorf("record %d has no field %q (%s)", row, field, flag)
	}
	if value[0] == '{' || value[0] == '[' {
		return fmt.Errorf("record %d: %s is %s (%s): a partition key must be a text, a number, true, false or null",
			row, field, shorten(value), flag)
	}
	if err := json.Unmarshal(value, new(any)); err != nil {
		return fmt.Errorf("record %d: %s is %s (%s): %w", row, field, shorten(value), flag, err)
	}
	return nil
}

func shorten(raw json.RawMessage) string {
	if len(raw) > 40 {
		return string(raw[:40]) + "..."
	}
	return string(raw)
}

// eachObject calls do for each JSON object in a text. The text is a JSON array, or has
// one object per line. It stops at the first error.
func eachObject(in io.Reader, do func(map[string]json.RawMessage) error) error {
	buffered := bufio.NewReaderSize(in, 1<<16)
	const mark = "\ufeff" // some programs begin every file with a byte order mark
	if begin, err := buffered.Peek(len(mark)); err == nil && string(begin) == mark {
		if _, err := buffered.Discard(len(mark)); err != nil {
			return err
		}
	}
	decode := json.NewDecoder(buffered)
	array, err := beginsArray(buffered)
	if err != nil {
		return err
	}
	if array {
		if _, err := decode.Token(); err != nil {
			return err
		}
	}
	for row := 1; !array || decode.More(); row++ {
		var object map[string]json.RawMessage
		err := decode.Decode(&object)
		switch {
		case errors.Is(err, io.EOF) && !array:
			return nil
		case err != nil:
			return fmt.Errorf("record %d is not a JSON object: %w", row, err)
		case object == nil:
			return fmt.Errorf("record %d is null, not a JSON object", row)
		}
		if err := do(object); err != nil {
			return err
		}
	}
	if _, err := decode.Token(); err != nil {
		return fmt.Errorf("the array has no end: %w", err)
	}
	if _, err := decode.Token(); !errors.Is(err, io.EOF) {
		return errors.New("unexpected data after the array: a file must contain one array, or objects without an array")
	}
	return nil
}

// beginsArray reports whether the first byte after white space is "[".
func beginsArray(in *bufio.Reader) (bool, error) {
	for {
		b, err := in.ReadByte()
		switch {
		case errors.Is(err, io.EOF):
			return false, nil
		case err != nil:
			return false, err
		case strings.IndexByte(" \t\r\n", b) >= 0:
			continue
		}
		return b == '[', in.UnreadByte()
	}
}

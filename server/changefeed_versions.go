package server

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/changefeed-go/changefeed/feed"
)

// This file writes changes in the form {current, metadata, previous}. All versions and
// deletes mode always uses this form. Latest version mode uses it if the client requests
// it. The documents are copied from the store, so the JSON around them is written by
// hand.

// These are the constant parts of a change in JSON, and the names of operations in it.
var (
	beginChange     = []byte(`{"current":`)
	noImage         = []byte(`{}`)
	beginPrevious   = []byte(`,"previous":`)
	endChange       = []byte(`}`)
	versionsWritten = map[feed.Op]string{feed.Create: "create", feed.Replace: "replace", feed.Delete: "delete", feed.Upsert: "replace"}
)

// currents returns the parts of a page in latest version mode, each change in the form
// {current, metadata}. The metadata has no operation, because the store does not keep it.
func currents(changes []feed.Change) pageParts {
	return func(emit func([]byte)) {
		var space [96]byte
		for i := range changes {
			c := &changes[i]
			if i > 0 {
				emit(comma)
			}
			emit(beginChange)
			emit(c.Current)
			b := append(space[:0], `,"metadata":{"lsn":`...)
			b = strconv.AppendInt(b, c.LSN, 10)
			b = append(b, `,"crts":`...)
			b = strconv.AppendInt(b, c.Time.Unix(), 10)
			emit(append(b, `}}`...))
		}
	}
}

// versions returns the parts of a page in all versions and deletes mode. keys are the
// names under which the metadata shows the components of a deleted document's partition
// key.
func versions(changes []feed.Change, keys []string) pageParts {
	return func(emit func([]byte)) {
		var space [512]byte
		for i := range changes {
			c := &changes[i]
			if i > 0 {
				emit(comma)
			}
			emit(beginChange)
			if c.Current != nil {
				emit(c.Current)
			} else {
				emit(noImage)
			}
			emit(appendMetadata(space[:0], c, keys))
			if c.Previous != nil {
				emit(beginPrevious)
				emit(c.Previous)
			}
			emit(endChange)
		}
	}
}

// appendMetadata appends the member metadata of a change to b. Its member crts is the
// commit time, as a Unix time in seconds, without which .NET fails.
func appendMetadata(b []byte, c *feed.Change, keys []string) []byte {
	b = append(b, `,"metadata":{"operationType":"`...)
	b = append(b, versionsWritten[c.Op]...)
	b = append(b, `","lsn":`...)
	b = strconv.AppendInt(b, c.LSN, 10)
	b = append(b, `,"crts":`...)
	b = strconv.AppendInt(b, c.Time.Unix(), 10)
	b = append(b, `,"previousImageLSN":`...)
	b = strconv.AppendInt(b, lastLSN(c.Previous), 10)
	b = append(b, `,"timeToLiveExpired":`...)
	b = strconv.AppendBool(b, c.Expired)
	if c.Op == feed.Delete {
		b = append(b, `,"id":`...)
		b = appendJSON(b, c.DeletedID)
		b = append(b, `,"partitionKey":{`...)
		first := true
		for i, name := range keys {
			// If the document had no value for this component of its key, the metadata
			// omits the component.
			if i >= len(c.DeletedKey) || c.DeletedKey[i] == any(feed.Undefined) {
				continue
			}
			if !first {
				b = append(b, ',')
			}
			first = false
			b = append(appendJSON(b, name), ':')
			b = appendJSON(b, c.DeletedKey[i])
		}
		b = append(b, '}')
	}
	return append(b, '}')
}

// lastLSN returns the _lsn of a stored document, which is always its last member. It
// returns 0 if image is empty.
func lastLSN(image []byte) int64 {
	if len(image) == 0 {
		return 0 // parsing an empty text would allocate an error, for each change of a page
	}
	digits := bytes.TrimSuffix(image, endChange)
	digits = digits[bytes.LastIndexByte(digits, ':')+1:]
	n, err := strconv.ParseInt(string(digits), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// appendJSON appends the JSON of a component of a partition key: a string, a number,
// true, false or null.
func appendJSON(b []byte, v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		return append(b, `null`...) // no component of a key can fail
	}
	return append(b, text...)
}

// keyNames returns the names under which metadata shows the components of a partition
// key. For a path of one name, such as /pk, the name is "pk". For a longer path, such as
// /a/b, the name is the path without its first slash. names holds the names in each path.
func keyNames(paths []string, names [][]string) []string {
	all := make([]string, len(paths))
	for i, path := range paths {
		if all[i] = names[i][0]; len(names[i]) > 1 {
			all[i] = strings.TrimPrefix(path, "/")
		}
	}
	return all
}

package server

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
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
			emit(appendShortMetadata(space[:0], c))
			emit(endChange)
		}
	}
}

// aroundCurrent returns the number of bytes that currents writes around a document.
func aroundCurrent(c *feed.Change) int {
	var space [96]byte
	return len(beginChange) + len(appendShortMetadata(space[:0], c)) + len(endChange)
}

// appendShortMetadata appends the member metadata of a change in latest version mode.
func appendShortMetadata(b []byte, c *feed.Change) []byte {
	b = append(b, `,"metadata":{"lsn":`...)
	b = strconv.AppendInt(b, c.LSN, 10)
	b = append(b, `,"crts":`...)
	b = strconv.AppendInt(b, c.Time.Unix(), 10)
	return append(b, '}')
}

// versionForm is the form of changes in all versions and deletes mode.
type versionForm struct {
	// keys has the names under which the metadata shows the components of a deleted
	// document's partition key.
	keys []string
	// bareDeletes leaves out the previous images of deletes.
	bareDeletes bool
}

// versionForm returns the form in which the changes of c are written.
func (x *request) versionForm(c *engine.Container) (versionForm, error) {
	props, err := c.Properties(x.r.Context())
	if err != nil {
		return versionForm{}, errNotFound
	}
	return versionForm{keyNames(props.KeyPaths, c.KeyPaths()), x.s.o.DeletesWithoutPrevious}, nil
}

// previous returns the previous image that is written with a change, or nil.
func (f versionForm) previous(c *feed.Change) []byte {
	if f.bareDeletes && c.Op == feed.Delete {
		return nil
	}
	return c.Previous
}

// parts returns the parts of a page.
func (f versionForm) parts(changes []feed.Change) pageParts {
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
			emit(appendMetadata(space[:0], c, f.keys))
			if previous := f.previous(c); previous != nil {
				emit(beginPrevious)
				emit(previous)
			}
			emit(endChange)
		}
	}
}

// around returns the number of bytes that parts writes around the documents of a change.
func (f versionForm) around(c *feed.Change) int {
	var space [512]byte
	n := len(beginChange) + len(appendMetadata(space[:0], c, f.keys)) + len(endChange)
	if c.Current == nil {
		n += len(noImage)
	}
	if f.previous(c) != nil {
		n += len(beginPrevious)
	}
	return n
}

// appendMetadata appends the member metadata of a change to b. Its members have the order of
// the service. crts is the commit time, as a Unix time in seconds, without which .NET fails.
// A create has no previousImageLSN, and only a delete by the time to live has
// timeToLiveExpired.
func appendMetadata(b []byte, c *feed.Change, keys []string) []byte {
	b = append(b, `,"metadata":{"lsn":`...)
	b = strconv.AppendInt(b, c.LSN, 10)
	b = append(b, `,"crts":`...)
	b = strconv.AppendInt(b, c.Time.Unix(), 10)
	b = append(b, `,"operationType":"`...)
	b = append(b, versionsWritten[c.Op]...)
	b = append(b, '"')
	if c.Op != feed.Create {
		b = append(b, `,"previousImageLSN":`...)
		b = strconv.AppendInt(b, lastLSN(c.Previous), 10)
	}
	if c.Expired {
		b = append(b, `,"timeToLiveExpired":true`...)
	}
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

package store

import (
	"github.com/changefeed-go/changefeed/internal/epk"
)

// Limits of documents.
const (
	// MaxDocumentSize is the size of a document's own bytes, without the system
	// properties that the store appends.
	MaxDocumentSize = 2 << 20
	// MaxIDSize is the length of an id in bytes of UTF-8.
	MaxIDSize = 1023
	// MaxDepth is how deep objects and arrays may be nested; the document itself is 1.
	MaxDepth = 128
)

// maxTailSize is the most that appendStored adds to a document's own bytes.
const maxTailSize = 256

// document is a body that was checked and can be stored: everything that needs
// no LSN, time or rid, so that it is made outside the sequencer. It is a value;
// its slices are shared.
type document struct {
	id string
	// key has a component for each path of the container; those beyond are zero.
	key [MaxKeyPaths]epk.Component
	// keys is how many components there are.
	keys int
	// ttl is the item's own: 0 none, ttlNever, or seconds.
	ttl int32
	// body is the document from its brace to the last of its own members, without the
	// closing brace: a slice of the caller's bytes, unless system properties had
	// to be taken out. Who keeps it beyond the call copies it.
	body []byte
}

// components returns the partition key. The slice shares d's memory.
func (d *document) components() []epk.Component { return d.key[:d.keys] }

// parseDocument checks a body and finds id, key components and ttl in it. Incoming
// system properties (_rid, _self, _etag, _attachments, _ts, _lsn) are dropped. With
// useTTL a bad ttl is refused (BadTTL), else ttl stays 0: a container without a
// time to live ignores it. It allocates for id and string components (and a body with
// system properties) only.
func parseDocument(body []byte, paths keyPaths, useTTL bool) (document, error) { panic("to do") }

// stamp is what the sequencer alone knows of a stored document.
type stamp struct {
	// number is the document's number in its container: given at its creation, kept by every
	// replace. Its rid is made from it.
	number uint32
	lsn    int64
	// ordinal is the write's place in its transaction, from 0; it tells the
	// etags of one transaction apart.
	ordinal uint16
	// ts is the store's clock in whole seconds.
	ts int64
}

// tailFormat makes the system properties of one container's documents:
//
//	,"_rid":"…","_self":"…","_etag":"\"…\"","_attachments":"attachments/","_ts":N,"_lsn":N}
//
// Their order is part of the store's format: _lsn is last, so that a feed page is
// stored bytes as they are, and a point read cuts the end off. Safe for concurrent use.
type tailFormat struct {
	container [8]byte // the container's rid
	self      string  // dbs/…/colls/…/docs/
}

// newTailFormat makes the tail of container number container in database number database.
func newTailFormat(database, container uint32) *tailFormat { panic("to do") }

// appendStored appends body (see document.body) and the system properties:
// the bytes to store. It allocates nothing when dst has room for len(body)+maxTailSize.
func (t *tailFormat) appendStored(dst, body []byte, s stamp) []byte { panic("to do") }

// storedSize is the exact length of what appendStored appends, for a deferred set.
func (t *tailFormat) storedSize(body []byte, s stamp) int { panic("to do") }

// etag returns the etag that appendStored writes for s, with its quotes: a function of
// the container, the LSN and the ordinal.
func (t *tailFormat) etag(s stamp) string { panic("to do") }

// appendPublic appends a document as a point read shows it: stored bytes
// without _lsn.
func appendPublic(dst, stored []byte) ([]byte, error) { panic("to do") }

// storedTimes reads _ts and _lsn off the end of stored bytes. It allocates nothing.
func storedTimes(stored []byte) (ts, lsn int64, err error) { panic("to do") }

// storedETag returns the etag of stored bytes, with its quotes (and without the
// backslashes of JSON).
func storedETag(stored []byte) (string, error) { panic("to do") }

// parseStored takes stored bytes apart: the document's own bytes (as document.body,
// sharing memory) and the stamp. It checks that the tail is exactly what appendStored
// of this container writes.
func (t *tailFormat) parseStored(stored []byte) (body []byte, s stamp, err error) { panic("to do") }

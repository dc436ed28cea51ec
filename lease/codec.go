package lease

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Codec encodes and decodes one processor's lease documents in one [Dialect]. Only an
// adapter for a document store needs it, to make the documents' ids and bodies:
//
//	lease id    prefix + ".." + lease token
//	marker id   prefix + ".info"
//
// The prefix joins these texts:
//
//	DotNet              processor, account host in lower case, "_", database rid, "_", container rid
//	JavaHandleChanges   processor, account host as typed, "_", database name, "_", container name
//	JavaLatestVersion   processor, account host as typed, "_", database rid, "_", container rid
//
// A Codec is a value and safe for concurrent use.
type Codec struct {
	dialect Dialect
	key     Key
	keyed   bool
	prefix  string
	// prefixes are the prefixes of this processor's lease ids in all dialects, without
	// duplicates. The first is the prefix in the codec's own dialect.
	prefixes []string
}

// NewCodec returns the codec for one processor's documents.
//
// partitionKeyField reports whether the lease container is partitioned by /partitionKey
// instead of /id. The documents then have that member, which only .NET's dialect
// supports.
//
// NewCodec returns an error if a document id would contain a character that document
// stores refuse, and a [*DialectError] if the dialect does not support the key or
// partitionKeyField.
func NewCodec(d Dialect, k Key, partitionKeyField bool) (Codec, error) {
	c := Codec{dialect: d, key: k, keyed: partitionKeyField}
	var err error
	if c.prefix, err = d.prefix(k); err != nil {
		return Codec{}, err
	}
	switch {
	case d == JavaHandleChanges && k.Mode == feed.AllVersionsAndDeletes:
		return Codec{}, &DialectError{
			Found:  d.String() + " does not support all versions and deletes",
			Remedy: "use " + JavaLatestVersion.String() + ", under another processor name",
		}
	case d != DotNet && partitionKeyField:
		return Codec{}, &DialectError{
			Found:  "the lease container is partitioned by /partitionKey, and Java hosts refuse such a container",
			Remedy: "use a lease container that is partitioned by /id, or " + DotNet.String(),
		}
	}
	for _, other := range []Dialect{d, DotNet, JavaLatestVersion, JavaHandleChanges} {
		// A dialect whose prefix is not a valid id cannot have leases of this processor.
		if prefix, err := other.prefix(k); err == nil && !slices.Contains(c.prefixes, prefix+separator) {
			c.prefixes = append(c.prefixes, prefix+separator)
		}
	}
	return c, nil
}

const separator = ".."

// prefix returns the text with which the ids of all documents of a processor begin.
func (d Dialect) prefix(k Key) (string, error) {
	host, database, container := k.Identity.AccountHost, k.Identity.DatabaseRID, k.Identity.ContainerRID
	what := "rid"
	switch d {
	case DotNet:
		host = strings.ToLower(host) // .NET takes the host from a Uri, which is in lower case
	case JavaHandleChanges:
		database, container, what = k.Identity.Database, k.Identity.Container, "name"
	case JavaLatestVersion:
	default:
		return "", fmt.Errorf("unknown %s", d)
	}
	if host == "" || database == "" || container == "" {
		return "", errors.New("a lease id needs the account host, the database's " + what + " and the container's " + what)
	}
	prefix := k.Processor + host + "_" + database + "_" + container
	if at := strings.IndexAny(prefix, `/\?#`); at >= 0 {
		return "", fmt.Errorf("lease id prefix %q contains %q, which is not allowed in a document id", prefix, prefix[at:at+1])
	}
	return prefix, nil
}

// Processor returns the processor's name, with which its documents' ids begin.
func (c Codec) Processor() string { return c.key.Processor }

// Dialect returns the codec's dialect.
func (c Codec) Dialect() Dialect { return c.dialect }

// LeasePrefix returns the prefix that the ids of this processor's leases have, and no
// other document's. If the account's host is in lower case, [DotNet] and
// [JavaLatestVersion] have the same one.
func (c Codec) LeasePrefix() string { return c.prefix + separator }

// Prefixes returns this processor's lease prefixes in all dialects, the codec's own
// LeasePrefix first. A listing must read them all so that leases in another dialect are
// noticed; see [Codec.List].
func (c Codec) Prefixes() []string { return slices.Clone(c.prefixes) }

// LeaseID returns the document id for the lease named token.
func (c Codec) LeaseID(token string) string { return c.prefix + separator + token }

// MarkerID returns the id of the marker, the document that marks the store as
// initialised.
func (c Codec) MarkerID() string { return c.prefix + ".info" }

// LockID returns the id of the lock, a document that other implementations' hosts hold
// while they create the first leases. Ours do not need it, but a program that creates or
// converts leases must hold it if such hosts may be running.
func (c Codec) LockID() string { return c.prefix + ".lock" }

// isLease reports whether the document id belongs to one of this processor's leases.
func (c Codec) isLease(id string) bool { return strings.HasPrefix(id, c.LeasePrefix()) }

// List adds a document to a listing if it is a lease, the marker, an unreadable lease, or
// a lease in another dialect, and ignores any other. Implement [Store.List] by calling it
// for every document whose id begins with one of [Codec.Prefixes]. modified is the
// document's _ts.
func (c Codec) List(l *Listing, id string, modified time.Time, document []byte) {
	if id == c.MarkerID() {
		l.Initialized = modified
		return
	}
	if !c.isLease(id) {
		if d, ok := c.elsewhere(id, document); ok {
			l.Foreign = append(l.Foreign, Foreign{ID: id, Dialect: d})
		}
		return
	}
	found, err := c.Decode(document)
	if foreign, ok := errors.AsType[*foreignError](err); ok {
		l.Foreign = append(l.Foreign, Foreign{ID: id, Dialect: foreign.dialect})
	}
	if err != nil {
		l.Unreadable = append(l.Unreadable, newUnreadable(c.LeasePrefix(), id, err))
		return
	}
	l.Leases = append(l.Leases, found)
}

// Marker returns the marker's document, whose id is [Codec.MarkerID].
func (c Codec) Marker() []byte {
	w := writer{}
	w.text("id", c.MarkerID())
	if c.keyed {
		w.text("partitionKey", c.MarkerID())
	}
	return w.end()
}

// Lock returns the lock's document. It expires after 30 seconds if the lease container
// has time to live enabled.
func (c Codec) Lock() []byte {
	w := writer{}
	w.text("id", c.LockID())
	w.raw("ttl", "30")
	if c.keyed {
		w.text("partitionKey", c.LockID())
	}
	return w.end()
}

// PartitionKey returns the document's partition key: its id, unless the document was read
// with another value in its member partitionKey. (.NET wrote random ones before version
// 3.59.)
func (c Codec) PartitionKey(l Lease) string {
	if l.document.partitionKey != "" && c.keyed {
		return l.document.partitionKey
	}
	return c.id(l)
}

// id returns the id of l's document. For a lease that was not created yet, it is the id
// that Create will use.
func (c Codec) id(l Lease) string {
	if c.isLease(l.ID) {
		return l.ID
	}
	return c.LeaseID(l.Token)
}

// New returns the lease that [Store.Create] must write for l: with an ID, without an
// ETag, and stamped by [Codec.Stamped]. New returns a [*DialectError] if the dialect
// cannot represent l.
func (c Codec) New(l Lease) (Lease, error) {
	if err := c.check(l); err != nil {
		return Lease{}, err
	}
	l.ID, l.ETag = c.id(l), ""
	return c.Stamped(l), nil
}

// PropertyContainer is the monitored container's rid, which our hosts write to every
// lease in the dialect [JavaHandleChanges]. Since the ids of these leases contain only
// the container's name, no host could otherwise detect that the positions belong to a
// deleted container with the same name. A Java host drops the property with its next
// write.
const PropertyContainer = "container"

// Stamped returns l with the properties that every write adds: [PropertyContainer] in
// [JavaHandleChanges], and none in the other dialects.
func (c Codec) Stamped(l Lease) Lease {
	rid := c.key.Identity.ContainerRID
	if c.dialect != JavaHandleChanges || rid == "" || l.Properties[PropertyContainer] == rid {
		return l
	}
	l.Properties = maps.Clone(l.Properties)
	if l.Properties == nil {
		l.Properties = map[string]string{}
	}
	l.Properties[PropertyContainer] = rid
	return l
}

// check returns a [*DialectError] if the dialect cannot represent l.
func (c Codec) check(l Lease) error {
	switch {
	case c.dialect == JavaHandleChanges && l.PartitionID == "":
		return &DialectError{
			Found:  fmt.Sprintf("lease %s is for a part of a partition, and %s supports only whole partitions", l.Token, c.dialect),
			Remedy: handleChangesRemedy,
		}
	case c.dialect == JavaHandleChanges && l.Mode == feed.AllVersionsAndDeletes:
		return &DialectError{
			Found:  fmt.Sprintf("lease %s is for all versions and deletes, which %s does not support", l.Token, c.dialect),
			Remedy: "use " + JavaLatestVersion.String() + ", under another processor name",
		}
	case c.dialect == JavaLatestVersion && l.PartitionID != "":
		return &DialectError{
			Found:  fmt.Sprintf("lease %s is for a partition by its id, and %s supports only ranges of keys", l.Token, c.dialect),
			Remedy: "create a lease for the partition's range",
		}
	}
	return nil
}

// Encode returns the lease's document, without the store's system properties (_etag, _ts
// and so on). The members come in the order in which the dialect's own hosts write them,
// then "properties" if those hosts do not have it, and last the unknown members that were
// read. A new lease gets its id from its token.
func (c Codec) Encode(l Lease) []byte {
	switch c.dialect {
	case JavaHandleChanges:
		return c.encodeHandleChanges(l)
	case JavaLatestVersion:
		return c.encodeLatestVersion(l)
	case DotNet:
	}
	return c.encodeDotNet(l)
}

// Decode parses a lease document. Unlike the dialects' own hosts it keeps unknown
// members.
func (c Codec) Decode(doc []byte) (Lease, error) {
	decode := decodeDotNet
	switch c.dialect {
	case JavaHandleChanges:
		decode = decodeHandleChanges
	case JavaLatestVersion:
		decode = c.decodeLatestVersion
	case DotNet:
	}
	l, err := decode(doc)
	if err != nil {
		return Lease{}, fmt.Errorf("decode lease document: %w", err)
	}
	return l, nil
}

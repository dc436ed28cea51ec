package lease

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// Codec reads and writes the lease documents of one processor in one [Dialect]. A
// document store's adapter uses it for the ids it reads and writes and for the
// documents' bodies:
//
//	lease id    prefix + ".." + lease token
//	marker id   prefix + ".info"
//
// where prefix is, in a row and without separators but for the underscores,
//
//	DotNet              processor, account host in lower case, "_", database rid, "_", container rid
//	JavaHandleChanges   processor, account host as typed, "_", database name, "_", container name
//	JavaLatestVersion   processor, account host as typed, "_", database rid, "_", container rid
//
// It is a value and safe for concurrent use.
type Codec struct {
	dialect Dialect
	key     Key
	keyed   bool
	prefix  string
	// prefixes are the lease prefixes of all dialects, without repetitions, the
	// codec's own first.
	prefixes []string
}

// NewCodec returns the codec for one processor's documents. partitionKeyField
// tells that the lease container is partitioned by /partitionKey and not by /id:
// the documents then have that member, which only .NET's dialect knows. It is an
// error when the id of a document would be one that document stores don't take, and
// a [*DialectError] when the dialect can't have what is asked for.
func NewCodec(d Dialect, k Key, partitionKeyField bool) (Codec, error) {
	c := Codec{dialect: d, key: k, keyed: partitionKeyField}
	var err error
	if c.prefix, err = d.prefix(k); err != nil {
		return Codec{}, err
	}
	switch {
	case d == JavaHandleChanges && k.Mode == feed.AllVersionsAndDeletes:
		return Codec{}, &DialectError{
			Found:  d.String() + " has no leases for all versions and deletes",
			Remedy: "use " + JavaLatestVersion.String() + ", under another processor name",
		}
	case d != DotNet && partitionKeyField:
		return Codec{}, &DialectError{
			Found:  "the lease container is partitioned by /partitionKey, where no Java host would take its leases from",
			Remedy: "use a lease container that is partitioned by /id, or " + DotNet.String(),
		}
	}
	for _, other := range []Dialect{d, DotNet, JavaLatestVersion, JavaHandleChanges} {
		// What can't be an id in another dialect is nobody's lease there.
		if prefix, err := other.prefix(k); err == nil && !slices.Contains(c.prefixes, prefix+separator) {
			c.prefixes = append(c.prefixes, prefix+separator)
		}
	}
	return c, nil
}

const separator = ".."

// prefix is what the ids of all documents of a processor begin with.
func (d Dialect) prefix(k Key) (string, error) {
	host, database, container := k.Identity.AccountHost, k.Identity.DatabaseRID, k.Identity.ContainerRID
	what := "rid"
	switch d {
	case DotNet:
		host = strings.ToLower(host) // .NET takes the host from a Uri, which lower-cases it.
	case JavaHandleChanges:
		database, container, what = k.Identity.Database, k.Identity.Container, "name"
	case JavaLatestVersion:
	default:
		return "", fmt.Errorf("%s is unknown", d)
	}
	if host == "" || database == "" || container == "" {
		return "", errors.New("lease ids need the account host, the database's " + what + " and the container's " + what)
	}
	prefix := k.Processor + host + "_" + database + "_" + container
	if at := strings.IndexAny(prefix, `/\?#`); at >= 0 {
		return "", fmt.Errorf("lease id prefix %q holds %q, which a document id can't", prefix, prefix[at:at+1])
	}
	return prefix, nil
}

// Dialect is the codec's dialect.
func (c Codec) Dialect() Dialect { return c.dialect }

// LeasePrefix is what the ids of this processor's leases begin with, and no other
// document's do. Where the account's host is spelled in lower case, DotNet and
// JavaLatestVersion have the same.
func (c Codec) LeasePrefix() string { return c.prefix + separator }

// Prefixes are what the ids of this processor's leases begin with in any dialect,
// the codec's own LeasePrefix first. A listing looks at all of them, see
// [Codec.List]: what is there in another dialect must be noticed.
func (c Codec) Prefixes() []string { return slices.Clone(c.prefixes) }

// LeaseID is the id of the lease with that token.
func (c Codec) LeaseID(token string) string { return c.prefix + separator + token }

// MarkerID is the id of the document that says that the store is initialised.
func (c Codec) MarkerID() string { return c.prefix + ".info" }

// LockID is the id of the document that other implementations' hosts hold while they
// make the first leases. Hosts of this one need none; who makes or converts leases
// beside possible hosts of theirs does.
func (c Codec) LockID() string { return c.prefix + ".lock" }

// isLease reports whether the document of that id is one of this processor's leases.
func (c Codec) isLease(id string) bool { return strings.HasPrefix(id, c.LeasePrefix()) }

// List adds a document that was found in the lease container to a listing: a lease,
// the marker, one that can't be understood, or a lease of another dialect. Others
// are passed over. modified is the document's _ts.
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

// Marker is the marker's document.
func (c Codec) Marker() []byte {
	w := writer{}
	w.text("id", c.MarkerID())
	if c.keyed {
		w.text("partitionKey", c.MarkerID())
	}
	return w.end()
}

// Lock is the lock's document. It goes by itself after 30 seconds, provided that the
// lease container lets items expire.
func (c Codec) Lock() []byte {
	w := writer{}
	w.text("id", c.LockID())
	w.raw("ttl", "30")
	if c.keyed {
		w.text("partitionKey", c.LockID())
	}
	return w.end()
}

// PartitionKey is the value by which the lease's document is addressed: its id,
// or the member partitionKey of a document that was read with another one (.NET
// wrote a random one before version 3.59).
func (c Codec) PartitionKey(l Lease) string {
	if l.document.partitionKey != "" && c.keyed {
		return l.document.partitionKey
	}
	return c.id(l)
}

// id is the id that the lease's document has, or gets when it is created.
func (c Codec) id(l Lease) string {
	if c.isLease(l.ID) {
		return l.ID
	}
	return c.LeaseID(l.Token)
}

// New returns l as it is created: with its ID, without an ETag, and as [Codec.Stamped]
// returns it. Its error is a [*DialectError] if the dialect has no form for the lease.
func (c Codec) New(l Lease) (Lease, error) {
	if err := c.check(l); err != nil {
		return Lease{}, err
	}
	l.ID, l.ETag = c.id(l), ""
	return c.Stamped(l), nil
}

// Stamped returns l as it is written: in [JavaHandleChanges] with [PropertyContainer].
func (c Codec) Stamped(l Lease) Lease {
	rid := c.key.Identity.ContainerRID
	if c.dialect != JavaHandleChanges || rid == "" || l.Properties[PropertyContainer] == rid {
		return l
	}
	return l.with(PropertyContainer, rid)
}

// check refuses, with a [*DialectError], to create a lease that the dialect has no
// form for.
func (c Codec) check(l Lease) error {
	switch {
	case c.dialect == JavaHandleChanges && l.PartitionID == "":
		return &DialectError{
			Found:  fmt.Sprintf("lease %s is for a part of a partition, and %s has leases for whole partitions alone", l.Token, c.dialect),
			Remedy: handleChangesRemedy,
		}
	case c.dialect == JavaHandleChanges && l.Mode == feed.AllVersionsAndDeletes:
		return &DialectError{
			Found:  fmt.Sprintf("lease %s is for all versions and deletes, which %s doesn't have", l.Token, c.dialect),
			Remedy: "use " + JavaLatestVersion.String() + ", under another processor name",
		}
	case c.dialect == JavaLatestVersion && l.PartitionID != "":
		return &DialectError{
			Found:  fmt.Sprintf("lease %s is for a partition by its id, and %s has leases for ranges of keys alone", l.Token, c.dialect),
			Remedy: "create a lease for the partition's range",
		}
	}
	return nil
}

// Encode writes the lease's document: the members in the order in which the
// dialect's own hosts write them, then "properties" where those have none, then the
// ones unknown to us that it was read with. System properties (_etag, _ts ...) are
// the store's to write and left out. A new lease gets its id from its token.
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

// Decode reads a lease document. Unlike the dialects' own hosts it keeps members
// unknown to it.
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

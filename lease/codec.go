package lease

import (
	"errors"
	"fmt"
	"strings"
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
	prefix  string
	keyed   bool
}

// NewCodec returns the codec for one processor's documents. partitionKeyField
// tells that the lease container is partitioned by /partitionKey and not by /id:
// the documents then have that member, which only .NET's dialect knows. It is an
// error when the id of a document would be one that document stores don't take, and
// a [*DialectError] when the dialect can't hold what is asked for.
func NewCodec(d Dialect, k Key, partitionKeyField bool) (Codec, error) {
	if d != DotNet {
		return Codec{}, fmt.Errorf("%s is unknown", d)
	}
	if k.Identity.AccountHost == "" || k.Identity.DatabaseRID == "" || k.Identity.ContainerRID == "" {
		return Codec{}, errors.New("lease ids need the account host, the database's rid and the container's rid")
	}
	// .NET takes the host from a Uri, which lower-cases it.
	prefix := k.Processor + strings.ToLower(k.Identity.AccountHost) + "_" + k.Identity.DatabaseRID + "_" + k.Identity.ContainerRID
	if at := strings.IndexAny(prefix, `/\?#`); at >= 0 {
		return Codec{}, fmt.Errorf("lease id prefix %q holds %q, which a document id can't", prefix, prefix[at:at+1])
	}
	return Codec{dialect: d, prefix: prefix, keyed: partitionKeyField}, nil
}

// Dialect is the codec's dialect.
func (c Codec) Dialect() Dialect { return c.dialect }

// LeasePrefix is what the ids of this processor's leases begin with, and no other
// document's do.
func (c Codec) LeasePrefix() string { return c.prefix + ".." }

// LeaseID is the id of the lease with that token.
func (c Codec) LeaseID(token string) string { return c.prefix + ".." + token }

// MarkerID is the id of the document that says that the store is initialised.
func (c Codec) MarkerID() string { return c.prefix + ".info" }

// IsLease reports whether the document of that id is one of this processor's leases.
func (c Codec) IsLease(id string) bool { return strings.HasPrefix(id, c.LeasePrefix()) }

// Marker is the marker's document.
func (c Codec) Marker() []byte {
	w := writer{}
	w.text("id", c.MarkerID())
	if c.keyed {
		w.text("partitionKey", c.MarkerID())
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
	if c.IsLease(l.ID) {
		return l.ID
	}
	return c.LeaseID(l.Token)
}

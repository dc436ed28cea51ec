package leases

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/rest"
	"github.com/changefeed-go/changefeed/lease"
)

// Container is a lease container, together with the monitored container of the leases. It
// reads and writes documents without decoding them, including damaged ones.
type Container struct {
	// Identity is the monitored container's identity, and Source is its feed.
	Identity feed.Identity
	Source   feed.Source
	// Keyed reports whether the lease container is partitioned by /partitionKey. TTL
	// reports whether its items may expire. The lock of a first start needs that.
	Keyed, TTL bool
	// Name is the lease container's name, database/container, for messages.
	Name string

	// source returns the feed, read as hosts of a dialect read it.
	source func(lease.Dialect) feed.Source
	client connect.ContainerDocuments
	// system reports whether the lease container was created without a partition key.
	system bool
}

// listPage is the largest number of documents in a page of a list.
const listPage = 1000

// requestTime is the timeout of a write that must be completed after the command was
// interrupted.
const requestTime = 10 * time.Second

// Names are the names of a container and its database.
type Names struct{ Database, Container string }

// Open reads the properties of the monitored container and of the lease container. It
// returns an error if one of them does not exist, or if the lease container has another
// partition key than /id or /partitionKey, unless it was created without one.
func Open(ctx context.Context, c *connect.Connection, monitored, leases Names) (*Container, error) {
	of := func(d lease.Dialect) feed.Source {
		return c.Monitored.Source(monitored.Database, monitored.Container, cosmos.SourceOptions{Dialect: d})
	}
	source := of(lease.DotNet)
	identity, err := source.Identity(ctx)
	if errors.Is(err, feed.ErrNotFound) {
		return nil, c.Monitored.Explain(ctx, monitored.Database, monitored.Container, err)
	}
	if err != nil {
		return nil, fmt.Errorf("read the monitored container: %w", err)
	}
	l := &Container{
		Identity: identity, Source: source, source: of, Name: leases.Database + "/" + leases.Container,
		client: c.Leases.Documents().Container(leases.Database, leases.Container),
	}
	return l, l.properties(ctx)
}

// properties reads the properties of the lease container that commands need: its
// partition key and its time to live.
func (c *Container) properties(ctx context.Context) error {
	p, err := c.client.Properties(ctx)
	if err != nil {
		if connect.Status(err) == http.StatusNotFound {
			return fmt.Errorf("lease container %s does not exist; name it with --leases and --lease-database", c.Name)
		}
		return fmt.Errorf("read the lease container %s: %w", c.Name, connect.Plain(err))
	}
	c.system = p.PartitionKey.SystemKey
	c.TTL = p.DefaultTTL != nil
	// Hosts refuse a container in which leases expire, but a command must be able to show and save
	// those that hosts of .NET or Java keep there.
	c.Keyed, err = lease.CheckContainer(c.Name, p.PartitionKey.Paths, c.system, 0)
	return err
}

// list reads all lease documents for the monitored container, grouped by processor and
// dialect. It also returns the store's time.
func (c *Container) list(ctx context.Context) ([]group, time.Time, error) {
	rids, names := infixes(c.Identity)
	var now time.Time
	var all []Document
	pages := c.client.Query(ctx, "SELECT * FROM c WHERE CONTAINS(c.id, @rids) OR CONTAINS(c.id, @names)", listPage, rest.Parameter{Name: "@rids", Value: rids}, rest.Parameter{Name: "@names", Value: names})
	for page, err := range pages {
		if err != nil {
			return nil, now, fmt.Errorf("list the leases in %s: %w", c.Name, connect.Plain(err))
		}
		if now.IsZero() {
			now = clock(page.Header)
		}
		for _, body := range page.Documents {
			d, err := parseDocument(body, c.Keyed)
			if err != nil {
				return nil, now, fmt.Errorf("list the leases in %s: %w", c.Name, err)
			}
			all = append(all, d)
		}
	}
	return c.groups(all), now, nil
}

// clock returns the store's time, from the Date header of an answer.
func clock(h http.Header) time.Time {
	if t, err := http.ParseTime(h.Get("Date")); err == nil {
		return t
	}
	return time.Now().UTC()
}

// Read reads one document, and returns it with the store's time. It returns
// [feed.ErrNotFound] if the document does not exist.
func (c *Container) Read(ctx context.Context, id, key string) (Document, time.Time, error) {
	answer, err := c.client.Read(ctx, c.key(key), id)
	if err != nil {
		return Document{}, time.Time{}, c.failure("read", id, err)
	}
	d, err := parseDocument(answer.Body, c.Keyed)
	return d, clock(answer.Header), err
}

// Create creates a document. It returns a *ChangedError if the document exists.
func (c *Container) Create(ctx context.Context, id, key string, body []byte) (Document, error) {
	answer, err := c.client.Create(ctx, c.key(key), body)
	if err != nil {
		return Document{}, c.failure("create", id, err)
	}
	return parseDocument(answer.Body, c.Keyed)
}

// Replace replaces d by body. It returns a *ChangedError if d has changed.
func (c *Container) Replace(ctx context.Context, d Document, body []byte) (Document, error) {
	answer, err := c.client.Replace(ctx, c.key(d.Key), d.ID, d.ETag, body)
	if err != nil {
		return Document{}, c.failure("replace", d.ID, err)
	}
	return parseDocument(answer.Body, c.Keyed)
}

// update replaces the document of i by l. If another client has written it meanwhile, update reads i
// and the store's time again, and returns a *[lease.ConflictError].
func (c *Container) update(ctx context.Context, s *Survey, i *Item, l lease.Lease) (lease.Lease, error) {
	_, err := c.Replace(ctx, i.Document, s.Codec.Encode(l))
	if !changed(err) {
		return l, err
	}
	if i.Document, s.Now, err = c.Read(ctx, i.Document.ID, i.Key); err != nil {
		return l, err
	}
	if i.Lease, err = s.Codec.Decode(i.Body); err != nil {
		return l, err
	}
	return l, l.Conflict(i.Lease)
}

// Delete deletes d. It returns a *ChangedError if d has changed.
func (c *Container) Delete(ctx context.Context, d Document) error {
	if err := c.client.DeleteDocument(ctx, c.key(d.Key), d.ID, d.ETag); err != nil {
		return c.failure("delete", d.ID, err)
	}
	return nil
}

// key returns the partition key of a document. value is the key in a container that has one.
func (c *Container) key(value string) feed.PartitionKey {
	if c.system {
		return nil
	}
	return feed.PartitionKey{value}
}

// ChangedError reports that another client wrote or deleted a document since it was read.
// Nothing was changed.
type ChangedError struct {
	// ID is the document's id.
	ID string
	// Exists reports whether a document that was to be created already exists.
	Exists bool
}

func (e *ChangedError) Error() string {
	if e.Exists {
		return fmt.Sprintf("%s was created meanwhile by another client", e.ID)
	}
	return fmt.Sprintf("%s was changed meanwhile by another client", e.ID)
}

// failure returns the error for a failed request, by the HTTP status in err. verb is the
// operation.
func (c *Container) failure(verb, id string, err error) error {
	switch connect.Status(err) {
	case http.StatusNotFound:
		return fmt.Errorf("%s %s: %w", verb, id, feed.ErrNotFound)
	case http.StatusConflict:
		return &ChangedError{ID: id, Exists: true}
	case http.StatusPreconditionFailed:
		return &ChangedError{ID: id}
	}
	return fmt.Errorf("%s %s in %s: %w", verb, id, c.Name, connect.Plain(err))
}

// group holds the lease documents of one processor.
type group struct {
	name
	// dialect is the dialect of most of the leases.
	dialect lease.Dialect
	// leases are lease documents. marker and lock are nil if there is none.
	leases       []Document
	marker, lock *Document
}

// known reports whether the processor's name is known.
func (g group) known() bool { return g.host != "" }

// groups returns the lease documents grouped by the prefixes of their ids. It omits the
// lease documents of other monitored containers.
func (c *Container) groups(all []Document) []group {
	byPrefix := map[string]*group{}
	for _, d := range all {
		n, ok := parseName(d.ID, c.Identity)
		if !ok {
			continue
		}
		g := byPrefix[n.prefix]
		if g == nil {
			g = &group{name: n}
			byPrefix[n.prefix] = g
		}
		switch n.rest {
		case markerSuffix:
			g.marker = &d
		case lockSuffix:
			g.lock = &d
		default:
			g.leases = append(g.leases, d)
		}
	}
	var groups []group
	for _, prefix := range slices.Sorted(maps.Keys(byPrefix)) {
		g := *byPrefix[prefix]
		g.dialect = c.dialect(g)
		groups = append(groups, g)
	}
	return groups
}

// dialect returns the dialect of most leases in a group. It tries each dialect's codec,
// and counts the documents that cannot be of that dialect.
func (c *Container) dialect(g group) lease.Dialect {
	foreign := func(d lease.Dialect) int {
		codec, err := lease.NewCodec(d, lease.Key{Processor: g.processor, Identity: c.Identity}, false)
		if err != nil {
			return 0 // no lease of that dialect can have the group's ids
		}
		var l lease.Listing
		for _, document := range g.leases {
			codec.List(&l, codec.LeaseID(""), document.Modified, document.Body)
		}
		return len(l.Foreign)
	}
	switch {
	case g.byNames:
		return lease.JavaHandleChanges
	case foreign(lease.DotNet) > foreign(lease.JavaLatestVersion):
		return lease.JavaLatestVersion
	}
	return lease.DotNet
}

package server

import (
	"context"
	"fmt"
	"hash/maphash"
	"net/http"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/querypage"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// subject is what a replica's answer is about. The quota, the usage and some other headers
// depend on it.
type subject int

const (
	aboutOther subject = iota // offers
	aboutDatabases
	aboutDatabase
	aboutContainers
	aboutContainer
	aboutUsers
	aboutPermissions
	aboutRanges
	aboutItems
	aboutBatch
)

// subject returns what the answer is about, by the path of the request.
func (x *request) subject() subject {
	if len(x.path.Types) == 0 {
		return aboutOther
	}
	if x.op == opBatch {
		return aboutBatch
	}
	one := len(x.path.IDs) == len(x.path.Types) || x.r.Method == "POST" && !isQuery(x)
	switch x.path.Types[len(x.path.Types)-1] {
	case "dbs":
		if one {
			return aboutDatabase
		}
		return aboutDatabases
	case "colls":
		if one {
			return aboutContainer
		}
		return aboutContainers
	case "users":
		return aboutUsers
	case "permissions":
		return aboutPermissions
	case "pkranges":
		return aboutRanges
	case "docs":
		return aboutItems
	}
	return aboutOther
}

// catalogLSN is the LSN in answers about databases, users and offers. They have no feed, so
// nothing compares it. An answer about a missing container has the LSN 0: an SDK may keep its
// session token for a container that is created later.
const catalogLSN = 1

// locate sets the session token and the LSN of an answer that no partition of items gave.
func (x *request) locate(about subject) {
	if x.lsn >= 0 {
		return
	}
	x.lsn = catalogLSN
	switch {
	case x.c != nil:
		// The token of a container's own partition, because SDKs may keep this token and
		// send it with requests for its items.
		if ends, err := x.c.Ends(x.r.Context()); err == nil {
			end := ends[0]
			x.lsn, x.session = end.End, wire.SessionToken(end.ID, end.End)
			if about != aboutRanges {
				x.partition = end.ID
			}
			return
		}
		x.lsn = 0
	case len(x.path.IDs) > 1:
		x.lsn = 0
	}
	x.session = wire.SessionToken("0", x.lsn)
}

// The quotas of resources, as the service names them. Its quotas of documents are in KB.
const (
	quotaOfDatabases = "databases=1000;"
	quotaOfAccount   = quotaOfDatabases + "collections=5000;users=500000;permissions=2000000;clientEncryptionKeys=20;interopUsers=2000;" +
		"authPolicyElements=1000;roleDefinitions=100;roleAssignments=2000;azureRbac=200000;"
	quotaOfItems       = "documentSize=10240;documentsSize=10485760;documentsCount=-1;collectionSize=10485760;"
	quotaOfProvisioned = "documentSize=51200;documentsSize=52428800;documentsCount=-1;collectionSize=52428800;"
)

// setUsage sets the headers with the quota of a resource, and how much of it is used.
func (x *request) setUsage(w *headerWriter, about subject) {
	quota, usage := "", ""
	switch about {
	case aboutDatabases, aboutDatabase:
		all, err := x.s.db.Databases(x.r.Context())
		if err != nil {
			return
		}
		quota, usage = quotaOfDatabases, fmt.Sprintf("databases=%d;", len(all))
		if about == aboutDatabases {
			quota, usage = quotaOfAccount, usage+"collections=0;users=0;permissions=0;clientEncryptionKeys=0;interopUsers=0;"+
				"authPolicyElements=0;roleDefinitions=0;roleAssignments=0;azureRbac=0;"
		}
	case aboutContainers:
		quota, usage = "collections=5000;", fmt.Sprintf("collections=%d;", max(x.count, 0))
	case aboutUsers:
		quota, usage = "users=500000;", fmt.Sprintf("users=%d;", max(x.count, 0))
	case aboutPermissions:
		quota, usage = "permissions=2000000;", fmt.Sprintf("permissions=%d;", max(x.count, 0))
	case aboutItems:
		if x.c == nil {
			return
		}
		u := x.s.usages.of(x.r.Context(), x.c)
		w.set(nameQuota, u.quota)
		w.set(nameUsage, u.used)
		if x.op == opQuery {
			w.set(nameDeletePending, isFalse)
		}
		return
	case aboutOther, aboutContainer, aboutRanges, aboutBatch:
		return
	}
	w.addText(nameQuota, quota)
	w.addText(nameUsage, usage)
}

// usages holds the usage of each container, as of the last second. Counting its items anew
// for every answer would cost more than reading one. It is safe for concurrent use.
type usages struct {
	mu  sync.Mutex // guards the rest
	all map[*engine.Container]usage
}

// usage is a container's quota and usage as headers, and the time until which they are used.
type usage struct {
	quota, used []string
	until       time.Time
}

const (
	usageAge = time.Second
	// usageTime limits the time for counting. Most containers are counted already; a larger
	// one that is not is counted again only after usageRest.
	usageTime = 20 * time.Millisecond
	usageRest = time.Minute
	// maxUsages is the number of containers at which those of the past are forgotten.
	maxUsages = 1000
)

// of returns the usage of a container.
func (u *usages) of(ctx context.Context, c *engine.Container) usage {
	now := time.Now()
	u.mu.Lock()
	known, ok := u.all[c]
	u.mu.Unlock()
	if ok && now.Before(known.until) {
		return known
	}
	known = measure(ctx, c, known, now)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil || len(u.all) >= maxUsages {
		u.all = map[*engine.Container]usage{}
	}
	u.all[c] = known
	return known
}

// measure counts the items of a container. If that takes too long, it returns the last known
// usage.
func measure(ctx context.Context, c *engine.Container, last usage, now time.Time) usage {
	quota := quotaOfItems
	if p, err := c.Properties(ctx); err == nil && p.Throughput > 0 {
		quota = quotaOfProvisioned
	}
	ctx, cancel := context.WithTimeout(ctx, usageTime)
	defer cancel()
	u := usage{quota: []string{quota}, used: last.used, until: now.Add(usageAge)}
	stats, err := c.PartitionStats(ctx)
	if err != nil {
		u.until = now.Add(usageRest)
	}
	if err == nil || u.used == nil {
		var items, size int64
		for _, p := range stats {
			items += p.Items
			size += p.Bytes
		}
		const kb = 1 << 10
		u.used = []string{fmt.Sprintf("documentSize=%d;documentsSize=%d;documentsCount=%d;collectionSize=%d;", size/kb, size/kb, items, size/kb)}
	}
	return u
}

// costs knows what the last query with the same text, parameters and size of its pages cost in a
// container, and so the last read of an operation. Only reading tells what they cost, so if one
// is refused because the throughput is used up, the last one of its kind is the estimate. The
// store knows what other requests would have cost. costs is safe for concurrent use.
type costs struct {
	mu  sync.Mutex // guards all
	all map[costKey]float64
}

type costKey struct {
	c  *engine.Container
	op string
	// query is the hash of a query with its parameters, or 0. items is the size of the page
	// that the request asks for.
	query uint64
	items string
}

// querySeed is for the hashes of queries.
var querySeed = maphash.MakeSeed()

func (x *request) costKey() costKey {
	return costKey{x.c, x.op, x.asked, x.header(wire.HeaderMaxItemCount)}
}

// learn records the charge of a query or a read.
func (k *costs) learn(x *request) {
	if x.op != opQuery && x.r.Method != http.MethodGet {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.all == nil || len(k.all) >= maxUsages {
		k.all = map[costKey]float64{}
	}
	k.all[x.costKey()] = x.charge
}

// of returns the charge of the last query or read like x. If there was none, it returns the
// least charge.
func (k *costs) of(x *request) float64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if charge, ok := k.all[x.costKey()]; ok {
		return charge
	}
	if x.op == opQuery {
		return querypage.LeastCharge
	}
	return 1
}

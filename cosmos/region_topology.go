package cosmos

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// topology is the part of the account's properties that the client uses.
type topology struct {
	ID             string     `json:"id"`
	RID            string     `json:"_rid"`
	Writable       []location `json:"writableLocations"`
	Readable       []location `json:"readableLocations"`
	MultipleWrites bool       `json:"enableMultipleWriteLocations"`
	Consistency    struct {
		Default string `json:"defaultConsistencyLevel"`
	} `json:"userConsistencyPolicy"`
}

// location is a region of the account.
type location struct {
	Name     string `json:"name"`
	Endpoint string `json:"databaseAccountEndpoint"`
}

// regions holds the regions from which an account can be read. It sends no requests: the
// client sends them and records the results. It is safe for concurrent use.
type regions struct {
	endpoint  *url.URL
	preferred []string
	limited   bool
	// turn is held by the one request that refreshes the topology. Other requests use the
	// known topology. If there is none, they wait until turn is free or their contexts
	// end.
	turn chan struct{}

	mu    sync.Mutex // guards the fields below
	known *topology
	// asked is the time of the last request for the account, successful or not.
	asked time.Time
	// failed maps the host of a failed region to the time until which it is tried after
	// all others.
	failed map[string]time.Time
}

func newRegions(endpoint *url.URL, o Options) *regions {
	return &regions{
		endpoint: endpoint, preferred: o.PreferredRegions, limited: o.LimitToEndpoint,
		turn: make(chan struct{}, 1), failed: map[string]time.Time{},
	}
}

// current returns the known topology, or nil, and the time of its request.
func (g *regions) current() (t *topology, asked time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.known, g.asked
}

// learn records the result of a request for the account. t is nil if the request failed.
func (g *regions) learn(t *topology) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = now
	if t != nil {
		g.known = t
	}
}

// fail records that a host has failed, and that the topology must be refreshed.
func (g *regions) fail(host string) {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.failed[host] = now.Add(unavailableFor)
	if now.Sub(g.asked) > failureRefresh {
		g.asked = time.Time{}
	}
}

// hosts returns the hosts for a call, the best first. There is at least one. Regions that
// failed recently are last.
func (g *regions) hosts(q *call) []string {
	now := time.Now()
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []string
	switch {
	case g.limited:
	case q.account:
		all = g.accountHosts()
	case g.known != nil && q.writes:
		all = g.writeHosts(g.known)
	case g.known != nil:
		all = g.readHosts(g.known)
	}
	if len(all) == 0 {
		return []string{g.endpoint.Host}
	}
	slices.SortStableFunc(all, func(a, b string) int {
		x, y := g.failed[a].After(now), g.failed[b].After(now)
		switch {
		case x == y:
			return 0
		case y:
			return -1
		}
		return 1
	})
	return all
}

// readHosts returns the hosts of the preferred regions that the account has, or else of
// all readable regions. The region of writes is always included, because it has the
// writes of every session. If it is not preferred, it is last.
func (g *regions) readHosts(t *topology) []string {
	var all []string
	add := func(l location) {
		if u, err := url.Parse(l.Endpoint); err == nil && u.Host != "" && !slices.Contains(all, u.Host) {
			all = append(all, u.Host)
		}
	}
	for _, name := range g.preferred {
		for _, l := range t.Readable {
			if regionName(l.Name) == regionName(name) {
				add(l)
			}
		}
	}
	if len(all) == 0 {
		for _, l := range t.Readable {
			add(l)
		}
	}
	if len(t.Writable) > 0 {
		add(t.Writable[0])
	}
	return all
}

// writeHosts returns the hosts for a write: the region of writes and, if the account has
// several, the others after it. All hosts of a processor write to the first, so that the
// conditions of their writes hold.
func (g *regions) writeHosts(t *topology) []string {
	var all []string
	for i, l := range t.Writable {
		if u, err := url.Parse(l.Endpoint); err == nil && u.Host != "" && (i == 0 || t.MultipleWrites) {
			all = append(all, u.Host)
		}
	}
	return all
}

// takesWrites reports whether a host is the region of writes, or the endpoint while that is
// unknown.
func (g *regions) takesWrites(host string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known != nil && !g.limited {
		if all := g.writeHosts(g.known); len(all) > 0 {
			return host == all[0]
		}
	}
	return host == g.endpoint.Host
}

// accountHosts returns the hosts for a request for the account itself. The first is its
// endpoint. The others are its regions, which are tried when the endpoint is down. While
// those are unknown, they are the preferred regions under the names that the service
// gives them.
func (g *regions) accountHosts() []string {
	all := []string{g.endpoint.Host}
	if g.known != nil {
		for _, host := range g.readHosts(g.known) {
			if !slices.Contains(all, host) {
				all = append(all, host)
			}
		}
		return all
	}
	account, rest, found := strings.Cut(g.endpoint.Host, ".")
	if !found || !strings.HasPrefix(rest, "documents.") { // the domains are documents.azure.com, documents.azure.cn and others
		return all
	}
	for _, name := range g.preferred {
		all = append(all, account+"-"+regionName(name)+"."+rest)
	}
	return all
}

// regionName returns a region's name in the form for comparisons: "West Europe" is
// westeurope.
func regionName(name string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// topology returns the known topology. It refreshes the topology first if that is unknown
// or old. A failed refresh is an error only if the topology is unknown.
func (c *client) topology(ctx context.Context) (*topology, error) {
	known, asked := c.regions.current()
	if known != nil && time.Since(asked) < accountRefresh {
		return known, nil
	}
	_, err := c.refresh(ctx, asked)
	if known, _ = c.regions.current(); known != nil && ctx.Err() == nil {
		return known, nil
	}
	return nil, err
}

// accountName returns the name that the account has at all of its endpoints. If the
// account reports no name, it is the endpoint's host.
func (c *client) accountName(ctx context.Context) (string, error) {
	known, err := c.topology(ctx)
	if err != nil {
		return "", err
	}
	return cmp.Or(known.RID, known.ID, c.endpoint.Host), nil
}

// refresh reads the account again, unless another request has done so after since. If
// another request is doing so, refresh waits for it only if the topology is unknown. done
// reports whether this call has read the account.
func (c *client) refresh(ctx context.Context, since time.Time) (done bool, err error) {
	known, _ := c.regions.current()
	select {
	case c.regions.turn <- struct{}{}:
	default:
		if known != nil {
			return false, nil
		}
		select {
		case c.regions.turn <- struct{}{}:
		case <-ctx.Done():
			return false, ctx.Err()
		}
	}
	defer func() { <-c.regions.turn }()
	if now, asked := c.regions.current(); now != nil && asked.After(since) && !since.IsZero() {
		return false, nil
	}
	limit := requestTimeout
	if known != nil { // with a known topology the request must not wait for long
		limit = refreshTimeout
	}
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	next, err := c.readAccount(limited)
	if ctx.Err() == nil { // if the caller has ended the request, the account has not failed
		c.regions.learn(next)
	}
	return err == nil, err
}

// readAccount sends GET / and returns the topology in the response.
func (c *client) readAccount(ctx context.Context) (*topology, error) {
	q := &call{span: "Account.Read", op: "read the account", path: "/", account: true, early: true}
	a, err := c.try(ctx, q)
	if err != nil {
		return nil, err
	}
	if err := wire.Stranger(a.status, a.header, a.body); err != nil {
		return nil, misconfigured{fmt.Errorf("read the account: %s is %w", c.endpoint, err)}
	}
	if a.status != http.StatusOK {
		return nil, refusal{byKey: c.byKey, what: "account " + c.endpoint.Host, action: actionMetadata}.failure("read the account", a)
	}
	var t topology
	if err := json.Unmarshal(a.body, &t); err != nil {
		return nil, fmt.Errorf("read the account: %w", err)
	}
	if len(t.Readable) == 0 && len(t.Writable) == 0 {
		return nil, errors.New("read the account: the response has no region")
	}
	return &t, nil
}

package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// This file serves the admin API: operations that Azure Cosmos DB does not have, such as
// splitting a partition or injecting a fault. docs/admin.md describes it for users.
//
// The admin API uses the server's listener, with the path prefix /_changefeed. A request
// is signed with an account key. The signature covers the resource type "_changefeed"
// and, as the resource link, the path after the prefix.
//
// Injected faults and frozen partitions do not affect the admin API.

// adminPrefix is the first segment of the admin API's paths. No resource of the protocol
// has this name.
const adminPrefix = "_changefeed"

// maxAdminBody limits the body of an admin request, in bytes. The largest valid body
// describes a fault.
const maxAdminBody = 64 << 10

// adminRoute describes one operation of the admin API: its method, its path, its name in
// logs, whether it writes, and its function.
type adminRoute struct {
	method string
	// pattern is the path after adminPrefix, with "*" for each variable segment:
	// "faults/*".
	pattern string
	op      string
	writes  bool
	serve   func(x *request, vars []string) error
}

func (s *Server) adminTable() []adminRoute {
	const partitions = "dbs/*/colls/*/partitions"
	return []adminRoute{
		{http.MethodGet, partitions, "admin list partitions", false, s.adminPartitions},
		{http.MethodPost, partitions + "/*/split", "admin split partition", true, s.adminSplit},
		{http.MethodPost, partitions + "/*/merge", "admin merge partitions", true, s.adminMerge},
		{http.MethodPost, partitions + "/*/freeze", "admin freeze partition", true, s.adminFreeze(true)},
		{http.MethodPost, partitions + "/*/thaw", "admin thaw partition", true, s.adminFreeze(false)},
		{http.MethodGet, "frozen", "admin list frozen", false, s.adminListFrozen},
		{http.MethodDelete, "frozen", "admin thaw all", true, s.adminThawAll},
		{http.MethodGet, "faults", "admin list faults", false, s.adminListFaults},
		{http.MethodPost, "faults", "admin add fault", true, s.adminAddFault},
		{http.MethodDelete, "faults", "admin clear faults", true, s.adminClearFaults},
		{http.MethodDelete, "faults/*", "admin remove fault", true, s.adminRemoveFault},
	}
}

// serveAdmin finds the operation of an admin request, checks the signature and calls the
// operation. rest is the path after the prefix.
func (s *Server) serveAdmin(x *request, rest string) error {
	segments := []string{}
	if rest != "" {
		segments = strings.Split(rest, "/")
	}
	for i, segment := range segments {
		var err error
		if segments[i], err = url.PathUnescape(segment); err != nil {
			return badRequest("segment %.60q of the path is not properly escaped", segment)
		}
	}
	x.kind, x.links = adminPrefix, []string{strings.Join(segments, "/"), rest}
	g, err := s.authorize(x)
	if err != nil {
		return err
	}
	if x.allowed != nil {
		return forbidden("the admin API needs an account key and does not accept resource tokens")
	}
	var allowed []string
	for _, r := range s.adminTable() {
		vars, fits := matchPattern(r.pattern, segments)
		if !fits {
			continue
		}
		if r.method != x.r.Method {
			allowed = append(allowed, r.method)
			continue
		}
		x.op = r.op
		if r.writes && g != readWrite {
			return forbidden("%s needs a key that may write", r.op)
		}
		return r.serve(x, vars)
	}
	if len(allowed) > 0 {
		return x.methodNotAllowed("/"+adminPrefix+"/"+rest, allowed)
	}
	return failure(http.StatusNotFound, wire.SubNone, "the admin API has no operation at /%s/%.200s", adminPrefix, rest)
}

// matchPattern compares the segments of a path with a pattern such as "faults/*". fits
// reports whether they match. vars holds the segments that match a "*".
func matchPattern(pattern string, segments []string) (vars []string, fits bool) {
	parts := strings.Split(pattern, "/")
	if len(parts) != len(segments) {
		return nil, false
	}
	for i, part := range parts {
		switch {
		case part == "*" && segments[i] != "":
			vars = append(vars, segments[i])
		case part != segments[i]:
			return nil, false
		}
	}
	return vars, true
}

// adminBody parses the JSON body of a request into v. An empty body leaves v unchanged.
// An unknown member is an error, because a misspelled name would otherwise be ignored.
func (x *request) adminBody(v any) error {
	body, err := x.body(maxAdminBody)
	if err != nil || len(bytes.TrimSpace(body)) == 0 {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if unknown := strings.TrimPrefix(err.Error(), "json: unknown field "); unknown != err.Error() {
			return badRequest("cannot read the body: there is no member %s", unknown)
		}
		return badRequest("cannot read the body: %s", jsonProblem(body, err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return badRequest("the body has more than one JSON value")
	}
	return nil
}

// adminContainer returns the container that an admin path names in its first two variable
// segments: database and container.
func (x *request) adminContainer(vars []string) (*engine.Container, error) {
	x.path = wire.Path{Types: []string{"dbs", "colls"}, IDs: vars[:2]}
	return x.container()
}

// adminPartition is the JSON form of a live partition in answers of the admin API.
type adminPartition struct {
	ID      string   `json:"id"`
	Min     string   `json:"min"`
	Max     string   `json:"max"`
	Parents []string `json:"parents"`
}

// newAdminPartition converts a partition to its JSON form. A partition without parents
// has the list [] and not null.
func newAdminPartition(p feed.Partition) adminPartition {
	return adminPartition{ID: p.ID, Min: p.Range.Min, Max: p.Range.Max, Parents: append([]string{}, p.Parents...)}
}

func (x *request) sendPartitions(all ...feed.Partition) error {
	shown := make([]adminPartition, len(all))
	for i, p := range all {
		shown[i] = newAdminPartition(p)
	}
	return x.sendJSON(http.StatusOK, map[string]any{"partitions": shown})
}

// adminPartitionStats is the JSON form of a live partition with its document count and
// size.
type adminPartitionStats struct {
	adminPartition
	LSN       int64 `json:"lsn"`
	Documents int64 `json:"documents"`
	Bytes     int64 `json:"bytes"`
	Frozen    bool  `json:"frozen"`
}

// adminPartitions answers with the live partitions of a container, in the order of their
// key ranges.
func (s *Server) adminPartitions(x *request, vars []string) error {
	c, err := x.adminContainer(vars)
	if err != nil {
		return err
	}
	all, err := c.PartitionStats(x.r.Context())
	if err != nil {
		return err
	}
	shown := make([]adminPartitionStats, len(all))
	for i, p := range all {
		shown[i] = adminPartitionStats{
			adminPartition: newAdminPartition(p.Partition),
			LSN:            p.LSN, Documents: p.Items, Bytes: p.Bytes, Frozen: s.freezes.over(c, p.Range) != nil,
		}
	}
	return x.sendJSON(http.StatusOK, map[string]any{"partitions": shown})
}

// adminSplit splits a partition and answers with its two children. The partition is split
// at the key in the body, or else in the middle of its range.
func (s *Server) adminSplit(x *request, vars []string) error {
	var body struct {
		At string `json:"at"`
	}
	if err := x.adminBody(&body); err != nil {
		return err
	}
	c, err := x.adminContainer(vars)
	if err != nil {
		return err
	}
	made, err := c.Split(x.r.Context(), vars[2], strings.ToUpper(body.At))
	if err != nil {
		return s.adminGone(x, c, err)
	}
	return x.sendPartitions(made...)
}

// adminMerge merges a partition with a neighbour and answers with the merged partition.
// Without a neighbour in the body, it takes the next one in the order of key ranges.
func (s *Server) adminMerge(x *request, vars []string) error {
	var body struct {
		With string `json:"with"`
	}
	if err := x.adminBody(&body); err != nil {
		return err
	}
	c, err := x.adminContainer(vars)
	if err != nil {
		return err
	}
	if body.With == "" {
		all, err := c.Partitions(x.r.Context())
		if err != nil {
			return err
		}
		index := slices.IndexFunc(all, func(p feed.Partition) bool { return p.ID == vars[2] })
		switch {
		case len(all) == 1 && index == 0:
			return badRequest("container %s has only one partition, so there is no neighbour to merge it with", vars[1])
		case index < 0: // Merge returns the error
		case index == len(all)-1:
			body.With = all[index-1].ID
		default:
			body.With = all[index+1].ID
		}
	}
	made, err := c.Merge(x.r.Context(), vars[2], body.With)
	if err != nil {
		return s.adminGone(x, c, err)
	}
	return x.sendPartitions(made)
}

// adminGone returns the answer to a request for a partition that does not exist. The
// message lists the live partitions. The status is 404 and not 410, because SDKs react to
// a 410 by reading the partitions again.
func (s *Server) adminGone(x *request, c *engine.Container, err error) error {
	var gone *feed.GoneError
	if !errors.As(err, &gone) {
		return err
	}
	all, listErr := c.Partitions(x.r.Context())
	if listErr != nil {
		return err
	}
	ids := make([]string, len(all))
	for i, p := range all {
		ids[i] = p.ID
	}
	return failure(http.StatusNotFound, wire.SubNone, "there is no partition %.40q now; the live partitions are %s", gone.Partition, strings.Join(ids, ", "))
}

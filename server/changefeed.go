package server

import (
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// This file serves GET docs with the header A-IM: a page of the change feed.
//
// Supported: latest version mode, and all versions and deletes mode. A read starts from
// the beginning, from now (*), from a time or from an etag. It covers a partition, a
// range of effective partition keys, a logical key, a prefix of a hierarchical key, or
// the container. It may combine these. Both modes can return each change in the form
// {current, metadata}. A start from a time as in the old REST API (x-ms-version
// 2016-07-11) works, too. Not supported: a query over the feed.
//
// The etag of an answer is the position after the page: the LSN as a decimal number, in
// quotes. Each partition counts its own LSNs, so after a read of several partitions the
// etag has an LSN for each range of keys. Every answer has an etag, also a 304, because a
// client without one would start again. An etag is valid for the keys that were read, and
// for a part of them. An etag after the end of a partition's log is answered 404/1002: an
// older copy of the store was restored, and 304 would hide that. The answer's etag is then the
// end of what was restored. The position in a parent partition is valid for its children, and
// the position in a child is valid for its range of a merged partition.

// wireFormat is the only supported version of the form {current, previous, metadata} of a
// change.
const wireFormat = "2021-09-15"

// lastTimeless is the last version of the REST API in which a start from a time is
// answered with a position and no documents.
const lastTimeless = "2016-07-11"

func (s *Server) readChangeFeed(x *request) error {
	c, err := x.owner()
	if err != nil {
		return err
	}
	r, err := x.feedRequest(c)
	if err != nil {
		return err
	}
	if since, asked, err := x.timeless(); err != nil {
		return err
	} else if asked && r.Mode == feed.LatestVersion {
		page, err := c.FeedBefore(x.r.Context(), r, since)
		if err != nil {
			return feedFailure(c, err)
		}
		x.feedPosition(page)
		return x.sendNoPage()
	}
	return x.sendFeed(c, r)
}

// sendFeed reads a page of the change feed from the store and answers with it. If the
// page is empty, it answers 304.
func (x *request) sendFeed(c *engine.Container, r feed.Request) error {
	if err := x.acquireSlot(readSlots); err != nil {
		return err
	}
	buffer := feedBuffers.Get().(*engine.PageBuffer) //nolint:errcheck // the pool holds nothing else
	var form versionForm
	switch buffer.Around = nil; {
	case r.Mode == feed.AllVersionsAndDeletes:
		var err error
		if form, err = x.versionForm(c); err != nil {
			return err
		}
		buffer.Around = form.around
	case x.header(wire.HeaderWireFormat) != "":
		buffer.Around = aroundCurrent
	}
	page, err := c.FeedInto(x.r.Context(), r, buffer)
	if err != nil {
		var lost *feed.HistoryLostError
		if errors.As(err, &lost) { // a header for clients that do not parse the message
			x.etag = string(lost.Oldest)
		}
		if lost != nil && lost.Ended {
			x.charge = refusedPositionCharge
			x.setPartitions(page.Served)
		}
		return feedFailure(c, err)
	}
	x.feedPosition(page)
	n := len(page.Changes)
	switch {
	case n == 0:
		err = x.sendNoPage()
	case r.Mode == feed.AllVersionsAndDeletes:
		err = x.sendPage(n, form.parts(page.Changes))
	case x.header(wire.HeaderWireFormat) != "":
		err = x.sendPage(n, currents(page.Changes))
	default:
		if !x.sendText(n, buffer.Text()) {
			return nil // the client has disconnected; its connection may still read the buffer, so the pool must not reuse it
		}
	}
	if err == nil && buffer.Size() <= maxKeptBuffer {
		feedBuffers.Put(buffer)
	}
	return err
}

// refusedPositionCharge is the charge of a read after the end of the feed, in request units.
const refusedPositionCharge = 1

// feedBuffers is a pool of buffers for pages. Without it, most of the time of a page
// would be spent on allocating and collecting memory.
var feedBuffers = sync.Pool{New: func() any { return new(engine.PageBuffer) }}

// maxKeptBuffer is the size of the largest buffer that returns to feedBuffers, in bytes.
// Larger buffers are only needed for the page of a rare large transaction.
const maxKeptBuffer = 6 << 20

// feedPosition sets the headers of a page: the etag, the charge, and the highest LSN of
// the partitions that were read. Clients compare that LSN with their position to compute
// their lag.
func (x *request) feedPosition(page engine.FeedPage) {
	x.etag, x.charge = string(page.Continuation), page.Charge
	x.setPartitions(page.Served)
	if page.Unused > 0 {
		x.w.Header()[wire.HeaderUnusedLSNs] = []string{strconv.FormatInt(page.Unused, 10)}
	}
}

// setPage sets the headers for a page of the partition of. If that is zero, the page may be of all
// that were served.
func (x *request) setPage(of engine.PartitionEnd, served []engine.PartitionEnd) {
	if of.ID != "" {
		served = []engine.PartitionEnd{of}
	}
	x.setPartitions(served)
}

// setPartitions sets the headers for the partitions that were read. The session token has
// an entry for each partition, and the lsn header has the highest LSN of all.
func (x *request) setPartitions(all []engine.PartitionEnd) {
	if len(all) == 1 {
		x.setPartition(all[0].ID, all[0].End)
		return
	}
	tokens := make([]string, len(all))
	for i, p := range all {
		tokens[i] = wire.SessionToken(p.ID, p.End)
		x.lsn = max(x.lsn, p.End)
	}
	x.session = strings.Join(tokens, ",")
}

var comma = []byte(",")

// feedRequest parses the headers of a change feed request: the selection, the mode, the
// start and the page size.
func (x *request) feedRequest(c *engine.Container) (r feed.Request, err error) {
	s, err := x.selection(c)
	if err != nil {
		return r, err
	}
	r.Partition.ID, r.Range, r.Key = s.partition, s.keys, s.key
	if r.Mode, err = x.feedMode(); err != nil {
		return r, err
	}
	r.MaxItems, err = x.maxItems() // the engine's default for 0 and -1 is the service's
	if err != nil {
		return r, err
	}
	r.From, err = x.feedStart(r.Mode)
	return r, err
}

// feedMode returns the change feed mode in the A-IM header. It ignores case, because SDKs
// write the header differently.
func (x *request) feedMode() (feed.Mode, error) {
	if v := x.header(wire.HeaderWireFormat); v != "" && v != wireFormat {
		return 0, badRequest("the header x-ms-cosmos-changefeed-wire-format-version is %.40q; this server writes %s", v, wireFormat)
	}
	mode := strings.Join(strings.Fields(x.header(wire.HeaderAIM)), " ")
	switch {
	case strings.EqualFold(mode, wire.AIMIncremental):
		return feed.LatestVersion, nil
	case strings.EqualFold(mode, wire.AIMFullFidelity), strings.EqualFold(mode, "Incremental "+wire.AIMFullFidelity):
		return feed.AllVersionsAndDeletes, nil
	}
	return 0, badRequest("the header A-IM is %.40q; it is %q or %q", mode, wire.AIMIncremental, wire.AIMFullFidelity)
}

// feedStart returns the position at which the request starts to read. SDKs repeat their first
// start time with every page, so the position is the etag. The time beside it still leaves
// out older changes: after a merge, the etag of one parent may be before them in the other's
// range.
func (x *request) feedStart(mode feed.Mode) (feed.Start, error) {
	tag, since := strings.TrimSpace(x.header("If-None-Match")), x.header("If-Modified-Since")
	switch {
	case tag == "*":
		return feed.Now(), nil
	case tag != "" && (since == "" || mode == feed.AllVersionsAndDeletes):
		return feed.After(feed.Continuation(quoted(tag))), nil
	case tag != "":
		at, err := x.modifiedSince()
		if !x.isOldAPI() { // the old API's position is before the second, which it includes
			at = at.Add(time.Second)
		}
		return feed.AfterSince(feed.Continuation(quoted(tag)), at), err
	case mode == feed.AllVersionsAndDeletes && since != "":
		return feed.Start{}, badRequest("all versions and deletes mode cannot start from a time: " + startVersions)
	case mode == feed.AllVersionsAndDeletes:
		return feed.Start{}, badRequest("all versions and deletes mode cannot start from the beginning: " + startVersions)
	case since == "":
		return feed.Beginning(), nil
	}
	at, err := x.modifiedSince()
	// The service returns the changes after the second in the header. feed.At also
	// returns the changes within its second, so one second is added.
	return feed.At(at.Add(time.Second)), err
}

const startVersions = "send If-None-Match: * to start now, or the etag of an earlier answer to resume after it"

// modifiedSince parses the header If-Modified-Since.
func (x *request) modifiedSince() (time.Time, error) {
	at, err := wire.ParseTime(x.header("If-Modified-Since"))
	if err != nil {
		return at, badRequest("cannot read the header If-Modified-Since: %v", err)
	}
	return at, nil
}

// quoted returns an etag that has the characters of a position in quotes, because some
// clients strip the quotes. It returns any other etag unchanged.
func quoted(tag string) string {
	if tag != "" && strings.Trim(tag, "0123456789ABCDEF:;") == "" {
		return `"` + tag + `"`
	}
	return tag
}

// feedFailure converts an error of a feed read to the answer, with a message that names a
// remedy.
func feedFailure(c *engine.Container, err error) error {
	var lost *feed.HistoryLostError
	switch {
	case errors.As(err, &lost) && lost.Ended:
		return errSession
	case errors.As(err, &lost):
		return badRequest("the position is older than the container's history: %s; resume from the etag %s, or from now (If-None-Match: *), and "+
			"read the existing documents in latest version mode", lost.Reason, lost.Oldest)
	case errors.Is(err, feed.ErrUnsupported):
		return badRequest("container %s keeps no versions: set changeFeedPolicy.retentionDuration (minutes) in its properties to read it in all versions "+
			"and deletes mode, or start the server with --keep-versions", c.Identity().Container)
	case errors.Is(err, feed.ErrNotFound):
		return errNotFound
	}
	return err
}

// timeless reports in asked whether the request is a start from a time in the old REST
// API. The answer to such a request has the position before the second since, and no
// documents.
func (x *request) timeless() (since time.Time, asked bool, err error) {
	if !x.isOldAPI() || x.header("If-Modified-Since") == "" || x.header("If-None-Match") != "" {
		return since, false, nil
	}
	since, err = x.modifiedSince()
	return since, true, err
}

// isOldAPI reports whether the request is one of the REST API up to lastTimeless.
func (x *request) isOldAPI() bool {
	version := x.header(wire.HeaderVersion)
	return version != "" && version <= lastTimeless
}

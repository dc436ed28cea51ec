package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/lease"
)

// This file requests pages of the feed: GET docs with the header A-IM. read_address.go
// determines the target of the request, and read_page.go parses the body of the response.

const (
	// defaultItems is the number of changes in a page if the request does not set one.
	defaultItems = 100
	// maxRoutes limits how often a read without a partition finds its partition again
	// while partitions split and merge.
	maxRoutes = 3
)

// Read returns one page of the feed. Besides the errors of [feed.Source] it returns
// *[RecreatedError], and errors that wrap *azcore.ResponseError with the service's
// message.
//
// Accounts with several write regions do not support a start at a time. All versions and
// deletes mode supports only a start from now or from a continuation.
//
// The page's Charge covers all attempts, including the request that finds the partition,
// if there was one.
func (s *Source) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	began := time.Now()
	p, err := s.known(ctx)
	if err != nil {
		return feed.Page{}, err
	}
	if err := s.CheckStart(ctx, r.From, r.Mode); err != nil {
		return feed.Page{}, err
	}
	t, err := newTarget(p, r)
	if err != nil {
		return feed.Page{}, err
	}
	charge := 0.0
	for route := 0; ; route++ {
		cost, err := s.route(ctx, p, t, route > 0)
		charge += cost
		if err != nil {
			return feed.Page{}, err
		}
		q, a, err := s.ask(ctx, p, t, r)
		charge += q.charge
		if err != nil {
			return feed.Page{}, err
		}
		if a.status == http.StatusOK || a.status == http.StatusNotModified {
			page, err := s.page(ctx, p, t, r, a)
			page.Charge = charge
			page.Diagnostics.Elapsed = time.Since(began)
			return page, err
		}
		cost, err = s.refused(ctx, p, t, r, q, a)
		charge += cost
		if !errors.Is(err, errReroute) || route == maxRoutes {
			return feed.Page{}, err
		}
	}
}

// CheckStart returns an error that wraps [feed.ErrUnsupported], with the reason, if the
// feed cannot be read from a start. A processor calls it before it creates leases.
func (s *Source) CheckStart(ctx context.Context, from feed.Start, mode feed.Mode) error {
	timed := from.Kind() == feed.StartTime && !isBeginning(from.Time())
	switch {
	case from.Kind() == feed.StartContinuation && from.Continuation() == "":
		return fmt.Errorf("a start after an empty continuation: %w: an empty continuation is not a position", feed.ErrUnsupported)
	case mode == feed.AllVersionsAndDeletes && (timed || from.Kind() == feed.StartBeginning || from.Kind() == feed.StartTime):
		return fmt.Errorf("a start at %s in all versions and deletes mode: %w by Azure Cosmos DB: start from now or from a continuation", from, feed.ErrUnsupported)
	case !timed:
		return nil
	}
	known, err := s.account.client.topology(ctx)
	if err != nil {
		return err
	}
	if known.MultipleWrites {
		return fmt.Errorf("a start at a time (%s): %w by account %s, which has several write regions; start from the beginning or from now", from, feed.ErrUnsupported,
			s.account.host)
	}
	return nil
}

// isBeginning reports whether a start at t means the beginning. No item is older than the
// service, and a header cannot contain earlier times.
func isBeginning(t time.Time) bool { return t.Unix() <= 1 }

// ask requests a page and returns the response. If the service cannot return the
// requested number of items, ask requests fewer.
func (s *Source) ask(ctx context.Context, p *properties, t *target, r feed.Request) (*call, *answer, error) {
	items := r.MaxItems
	if items <= 0 {
		items = defaultItems
	}
	charge := 0.0
	for {
		q := &call{span: "Source.ReadFeed", op: "read the feed", path: s.path() + "/docs", header: s.feedHeader(p, t, r)}
		q.header.Set(wire.HeaderMaxItemCount, strconv.Itoa(items))
		a, err := s.account.client.do(ctx, q)
		charge += q.charge
		q.charge = charge
		if err != nil || a.failure == nil || items == 1 || !strings.Contains(a.failure.Error(), "Reduce page size and try again") {
			return q, a, err
		}
		items /= 2
	}
}

// feedHeader returns the header of a request for a page: the mode, the target and the
// position.
func (s *Source) feedHeader(p *properties, t *target, r feed.Request) http.Header {
	h := s.header()
	h.Set(wire.HeaderIntendedContainer, p.rid)
	if r.Mode == feed.AllVersionsAndDeletes {
		h.Set(wire.HeaderAIM, wire.AIMFullFidelity)
		h.Set(wire.HeaderWireFormat, wire.WireFormatVersions)
	}
	t.address(h)
	switch from := r.From; from.Kind() {
	case feed.StartNow:
		h.Set("If-None-Match", "*")
	case feed.StartTime:
		setSince(h, from.Time())
	case feed.StartContinuation:
		h.Set("If-None-Match", string(from.Continuation()))
		setSince(h, from.Since())
	case feed.StartBeginning:
	}
	if level := s.account.options.Consistency; level != "" {
		h.Set(wire.HeaderConsistency, string(level))
	}
	if token := s.sessionOf(t.partition); token != "" {
		h.Set(wire.HeaderSessionToken, token)
	}
	return h
}

// header returns the header that all requests for documents and partitions have. It
// announces the client's capabilities.
func (s *Source) header() http.Header {
	return http.Header{
		wire.HeaderAIM:          {wire.AIMIncremental},
		wire.HeaderCapabilities: {strconv.Itoa(capabilities(s.options.Dialect))},
	}
}

// setSince sets the header that requests changes from the second t on. The header
// contains the second before t, because the service returns later changes only.
func setSince(h http.Header, t time.Time) {
	if !t.IsZero() && !isBeginning(t) {
		h.Set("If-Modified-Since", wire.FormatTime(t.Add(-time.Second)))
	}
}

// capabilities returns the capabilities that the hosts of a dialect announce.
func capabilities(d lease.Dialect) int {
	switch d {
	case lease.JavaHandleChanges:
		return 0
	case lease.JavaLatestVersion:
		return wire.CapabilityMerge | wire.CapabilityTimeAfterMerge | wire.CapabilityIgnoreUnknown
	case lease.DotNet:
	}
	return wire.CapabilityMerge | wire.CapabilityIgnoreUnknown
}

// errReroute reports that a partition from an old list was read. The caller must list the
// partitions and find the partition again.
var errReroute = errors.New("the partition was split or merged")

// refused returns the error of a response that contains no page:
//
//	410/1002, 410/1007   gone, if the list of partitions confirms it; otherwise a
//	                     split is not complete yet, which is temporary
//	410/1000, 400/1024   the container may be another one
//	400                  in all versions and deletes mode: the position is too
//	                     old, or the mode is not available; with a start at a
//	                     time: not supported
//	404/1002             from the region of writes: the feed ends before the
//	                     position
//	others               see [refusal]
func (s *Source) refused(ctx context.Context, p *properties, t *target, r feed.Request, q *call, a *answer) (charge float64, err error) {
	const op = "read the feed"
	switch {
	case a.is(http.StatusGone, wire.SubNameCacheStale), a.is(http.StatusBadRequest, wire.SubIncorrectContainer):
		if err := s.verify(ctx, p); err != nil {
			return 0, err
		}
	case a.is(http.StatusGone, wire.SubPartitionGone, wire.SubCompletingSplit):
		if !t.named {
			return 0, fmt.Errorf("%s: %w: %w", op, errReroute, inLine(a.failure))
		}
		live, charge, err := s.list(ctx, p)
		if err != nil {
			return charge, err
		}
		for _, part := range live {
			if part.ID == t.partition.ID {
				return charge, fmt.Errorf("%s: partition %s is being split or merged: %w", op, part.ID, inLine(a.failure))
			}
		}
		return charge, &feed.GoneError{Partition: t.partition.ID, Range: t.keys}
	case a.is(http.StatusNotFound, wire.SubReadSessionNotAvailable) && q.lacking && r.From.Kind() == feed.StartContinuation:
		lost := &feed.HistoryLostError{
			Reason: "it lies after the end of the feed, as after the restore of an older copy", Ended: true, Oldest: feed.Continuation(a.header.Get("Etag")),
		}
		return 0, fmt.Errorf("%s: %w: %w", op, lost, inLine(a.failure))
	case a.status == http.StatusBadRequest && r.Mode == feed.AllVersionsAndDeletes:
		return 0, versionsRefused(op, s.what(), r, a)
	case a.status == http.StatusBadRequest && (r.From.Kind() == feed.StartTime || !r.From.Since().IsZero()):
		return 0, fmt.Errorf("%s of %s from %s: %w: %w", op, s.what(), r.From, feed.ErrUnsupported, inLine(a.failure))
	}
	return 0, s.refusal(actionFeed).failure(op, a)
}

// actionFeed is the right to read a feed.
const actionFeed = "Microsoft.DocumentDB/databaseAccounts/sqlDatabases/containers/readChangeFeed"

// pastRetention matches the service's messages for a position that is too old. There is
// no sub-status for it.
var pastRetention = regexp.MustCompile(`(?i)retention|older than|no longer available|out of (the )?(history|window)|history`)

// versionsRefused returns the error of a refused read of all versions. `changefeed serve`
// reports the oldest position as the response's etag. The service does not report it.
func versionsRefused(op, what string, r feed.Request, a *answer) error {
	if r.From.Kind() == feed.StartContinuation && pastRetention.MatchString(a.failure.Error()) &&
		!strings.Contains(a.failure.Error(), "changeFeedPolicy") {
		lost := &feed.HistoryLostError{Reason: "past the container's retention", Oldest: feed.Continuation(a.header.Get("Etag"))}
		return fmt.Errorf("%s: %w: %w", op, lost, inLine(a.failure))
	}
	return fmt.Errorf("%s of %s in all versions and deletes mode: %w: %w", op, what, feed.ErrUnsupported, inLine(a.failure))
}

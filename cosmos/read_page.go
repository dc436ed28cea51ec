package cosmos

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/jsonscan"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// maxDepth limits the nesting of a page. The service limits documents to 128 levels, and
// a page has up to three more around a document.
const maxDepth = 128 + 3

// page converts the response a to a page. The status is 200 with documents, or 304
// without.
func (s *Source) page(ctx context.Context, p *properties, t *target, r feed.Request, a *answer) (feed.Page, error) {
	page := feed.Page{
		Continuation: feed.Continuation(a.header.Get("Etag")), LSN: -1, End: -1,
		SessionToken: a.header.Get(wire.HeaderSessionToken),
		Diagnostics:  feed.Diagnostics{ActivityID: a.header.Get(wire.HeaderActivityID)},
	}
	if page.Continuation == "" {
		return page, fmt.Errorf("read the feed of %s: the response has no etag, so the page has no position", s.what())
	}
	s.remember(page.SessionToken)
	page.LSN, page.End = lsnOf(page.Continuation), endOf(page.SessionToken, t.partition.ID, a.header)
	if a.status == http.StatusNotModified {
		return page, nil
	}
	split := pageScanner{versions: r.Mode == feed.AllVersionsAndDeletes, keyPaths: p.keyPaths}
	if n, err := strconv.Atoi(a.header.Get(wire.HeaderItemCount)); err == nil && n > 0 {
		// A wrong count must not allocate a large list, so the body's size limits it. A
		// document has some hundred bytes of system properties.
		split.changes = make([]feed.Change, 0, min(n, len(a.body)/64+1))
	}
	if err := split.page(a.body); err != nil {
		return page, fmt.Errorf("read the feed of %s: the page after %s is malformed: %w", s.what(), r.From, err)
	}
	if split.rid != "" && split.rid != p.rid {
		if err := s.verify(ctx, p); err != nil {
			return page, err
		}
		return page, fmt.Errorf("read the feed of %s: the response is of container %s, not of %s", s.what(), split.rid, p.rid)
	}
	page.Changes, page.Bytes = split.changes, len(a.body)
	if n, err := strconv.ParseInt(a.header.Get(wire.HeaderUnusedLSNs), 10, 64); err == nil {
		page.Unused = n
	}
	if t.nothing {
		page.Changes = nil
	}
	return page, nil
}

// lsnOf returns the LSN of a continuation, which is a decimal number in quotes. It
// returns -1 for any other text.
func lsnOf(c feed.Continuation) int64 {
	n, err := strconv.ParseInt(strings.Trim(string(c), `"`), 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// endOf returns the last LSN of the partition that responded, from the session token or
// else from the header lsn. It returns -1 if neither contains it.
func endOf(token, partition string, h http.Header) int64 {
	if partition == "" && !strings.Contains(token, ",") {
		partition, _, _ = strings.Cut(token, ":")
	}
	if n, ok := wire.SessionLSN(token, partition); ok {
		return n
	}
	if n, err := strconv.ParseInt(h.Get(wire.HeaderLSN), 10, 64); err == nil {
		return n
	}
	return -1
}

// pageScanner splits the body of a page in one pass that validates all of it. Changes are
// slices of the body.
type pageScanner struct {
	// versions selects the form {current, previous, metadata} of all versions and deletes
	// mode.
	versions bool
	// keyPaths are the paths of the container's partition key. They give the order of the
	// components in the key of a delete.
	keyPaths []keyPath

	rid     string
	changes []feed.Change
}

// These errors report JSON text that is not a valid page.
var (
	errNoDocuments = errors.New(`no member "Documents"`)
	errTwice       = errors.New(`two members "Documents"`)
	errNoPosition  = errors.New("a change has no positive LSN, or no time")
	errNoImage     = errors.New("a change has no item and is not a delete")
)

// page parses {"_rid":..., "Documents":[...], "_count":n} with the members in any order.
func (s *pageScanner) page(body []byte) error {
	in := jsonscan.New(body, maxDepth)
	in.Space()
	found := false
	for more, err := in.Object(1); more || err != nil; more, err = in.Next('}') {
		if err != nil {
			return err
		}
		name, err := in.Name()
		switch {
		case err != nil:
			return err
		case name.Is("Documents") && found:
			return errTwice
		case name.Is("Documents"):
			found = true
			err = s.documents(in)
		case name.Is("_rid") && in.Peek() == '"':
			var rid jsonscan.Text
			rid, err = in.Text()
			s.rid = rid.String()
		default:
			err = in.Value(2)
		}
		if err != nil {
			return err
		}
	}
	if !found {
		return errNoDocuments
	}
	return in.End()
}

func (s *pageScanner) documents(in *jsonscan.Scanner) error {
	for more, err := in.Array(2); more || err != nil; more, err = in.Next(']') {
		if err != nil {
			return err
		}
		var c feed.Change
		if s.versions {
			err = s.version(in, &c)
		} else {
			err = latest(in, &c)
		}
		if err != nil {
			return err
		}
		if c.LSN <= 0 || c.Time.IsZero() {
			return errNoPosition
		}
		s.changes = append(s.changes, c)
	}
	return nil
}

// positions names the members that give the position and the time of a change in latest
// version mode.
var positions = []string{"_lsn", "_ts"}

// latest parses a document of latest version mode. If a name is repeated, it uses the
// last _lsn and _ts.
func latest(in *jsonscan.Scanner, c *feed.Change) error {
	from := in.Offset()
	var at [2]int
	err := in.Members(3, positions, at[:])
	if err != nil {
		return err
	}
	c.Current = in.Slice(from)
	end := in.Offset()
	if in.Back(at[0]); at[0] >= 0 {
		c.LSN, err = in.Int()
	}
	if in.Back(at[1]); at[1] >= 0 && err == nil {
		c.Time, err = seconds(in)
	}
	if err == nil {
		in.Back(end)
	}
	return err
}

// seconds parses a time in whole seconds since 1970.
func seconds(in *jsonscan.Scanner) (time.Time, error) {
	n, err := in.Int()
	return time.Unix(n, 0).UTC(), err
}

// version parses {"current":{...},"previous":{...},"metadata":{...}}. Images may be
// missing, null or empty: a delete has no current image, and only some accounts keep
// previous images.
func (s *pageScanner) version(in *jsonscan.Scanner, c *feed.Change) error {
	var meta metadata
	for more, err := in.Object(3); more || err != nil; more, err = in.Next('}') {
		if err != nil {
			return err
		}
		name, err := in.Name()
		switch {
		case err != nil:
			return err
		case name.Is("current"):
			c.Current, err = image(in)
		case name.Is("previous"):
			c.Previous, err = image(in)
		case name.Is("metadata"):
			err = meta.read(in)
		default:
			err = in.Value(4)
		}
		if err != nil {
			return err
		}
	}
	return s.complete(c, &meta)
}

// image parses a document. It returns nil for null or an empty object.
func image(in *jsonscan.Scanner) ([]byte, error) {
	from := in.Offset()
	if in.Peek() != '{' && in.Peek() != 'n' {
		return nil, in.Fail("want an item")
	}
	if err := in.Value(4); err != nil {
		return nil, err
	}
	text := in.Slice(from)
	if text[0] == 'n' || len(bytes.TrimSpace(text[1:len(text)-1])) == 0 {
		return nil, nil
	}
	return text, nil
}

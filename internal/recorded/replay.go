package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// version is the x-ms-version with which the requests were recorded.
const version = "2018-12-31"

// replay sends the recorded requests to an account, in order.
type replay struct {
	endpoint string
	key      wire.Key
	client   *http.Client
	// patient makes replay repeat a request that the account has throttled, unless the
	// recorded one was throttled, too.
	patient bool
	// bursts is the server that answers bursts, or nil if it is this one. It also gets the
	// requests that store what the bursts read. limit sets the throughput of its database,
	// which is 0 meanwhile.
	bursts *replay
	limit  func(ctx context.Context, rate int) error

	etags, continuations map[int]string
}

// result is the comparison of one case.
type result struct {
	recorded
	found []difference
	// note says more about a burst.
	note string
}

// run sends all cases and calls each with the result of those that have facts.
func (r *replay) run(ctx context.Context, cases []recorded, each func(result)) error {
	r.etags, r.continuations = map[int]string{}, map[int]string{}
	foreign, err := r.foreignOffers(ctx)
	if err != nil {
		return err
	}
	for i := range cases {
		c := &cases[i]
		if err := wait(ctx, time.Duration(c.Wait)*time.Second); err != nil {
			return err
		}
		if err := r.bursts.follow(ctx, c); err != nil {
			return fmt.Errorf("case %d, second server: %w", c.N, err)
		}
		a, note, err := r.answerTo(ctx, c)
		if err != nil {
			return fmt.Errorf("case %d: %w", c.N, err)
		}
		if after := c.After; after != nil && (c.Want == nil || a.status != c.Want.Status) {
			undo := recorded{N: c.N, Method: after.Method, Path: after.Path, Headers: after.Headers, Body: after.Body}
			if _, err := r.send(ctx, &undo); err != nil {
				return fmt.Errorf("after case %d: %w", c.N, err)
			}
		}
		if c.Path == "/offers" {
			if a.body, err = leaveOut(a.body, foreign); err != nil {
				return fmt.Errorf("case %d: %w", c.N, err)
			}
		}
		r.continuations[c.N], _ = a.get("x-ms-continuation")
		r.etags[c.N], _ = a.get("etag")
		if c.Want != nil {
			each(result{recorded: *c, found: compare(c.Want, a), note: note})
		}
	}
	return nil
}

// sharedThroughput is that of the recorded database, in RU/s.
const sharedThroughput = 400

// follow sends the request of a case if it stores what a burst reads. Before a burst it sets
// the recorded throughput.
func (r *replay) follow(ctx context.Context, c *recorded) error {
	switch {
	case r == nil:
		return nil
	case c.Special.Burst > 0:
		return r.limit(ctx, sharedThroughput)
	case c.Method != http.MethodPost || c.Path != "/dbs" && c.Path != "/dbs/judge/colls" && len(c.Gen.Seed) == 0:
		return nil
	}
	if _, err := r.send(ctx, c); err != nil {
		return err
	}
	if c.Path == "/dbs" {
		return r.limit(ctx, 0)
	}
	return nil
}

// answerTo sends a case's request, or its burst of requests. Of a burst it returns an
// answer that was throttled, if there is one.
func (r *replay) answerTo(ctx context.Context, c *recorded) (*answer, string, error) {
	burst := c.Special.Burst
	if burst == 0 {
		a, err := r.send(ctx, c)
		return a, "", err
	}
	if r.bursts != nil {
		r = r.bursts
	}
	answers, errs := make([]*answer, burst), make([]error, burst)
	var all sync.WaitGroup
	for i := range burst {
		all.Go(func() { answers[i], errs[i] = r.send(ctx, c) })
	}
	all.Wait()
	throttled, first := 0, answers[0]
	for i, a := range answers {
		if errs[i] != nil {
			return nil, "", errs[i]
		}
		if a.status == http.StatusTooManyRequests {
			throttled++
			first = a
		}
	}
	return first, fmt.Sprintf("%d of %d at once were throttled, recorded: %d", throttled, burst, c.Special.Throttled), nil
}

// send sends the request of a case, signed, and reads the answer.
func (r *replay) send(ctx context.Context, c *recorded) (*answer, error) {
	for {
		a, err := r.sendOnce(ctx, c)
		wanted := c.Want != nil && c.Want.Status == http.StatusTooManyRequests
		if err != nil || !r.patient || a.status != http.StatusTooManyRequests || wanted {
			return a, err
		}
		ms, _ := a.get("x-ms-retry-after-ms")
		pause, err := strconv.Atoi(ms)
		if err != nil {
			pause = 500
		}
		if err := wait(ctx, time.Duration(pause)*time.Millisecond); err != nil {
			return nil, err
		}
	}
}

func wait(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}

func (r *replay) sendOnce(ctx context.Context, c *recorded) (*answer, error) {
	text, ok, err := c.body()
	if err != nil {
		return nil, err
	}
	var body io.Reader
	if ok {
		body = strings.NewReader(text)
	}
	u := r.endpoint + (&url.URL{Path: c.Path}).EscapedPath()
	q, err := http.NewRequestWithContext(ctx, c.Method, u, body)
	if err != nil {
		return nil, err
	}
	q.Header.Set("Accept", "application/json")
	q.Header.Set("Accept-Encoding", "identity")
	for name, value := range c.Headers {
		var n int
		if _, err := fmt.Sscanf(value, "<etag of %d>", &n); err == nil {
			if value = r.etags[n]; value == "" {
				value = `"none"`
			}
		}
		q.Header.Set(name, value)
	}
	if n := c.Special.ContinuationOf; n != 0 {
		token := r.continuations[n]
		if token == "" {
			token = "(none)"
		}
		q.Header.Set("x-ms-continuation", token)
	}
	r.sign(q, c.Path)
	a, err := r.client.Do(q)
	if err != nil {
		return nil, err
	}
	defer func() { _ = a.Body.Close() }() // read to its end
	read, err := io.ReadAll(a.Body)
	if err != nil {
		return nil, err
	}
	return &answer{status: a.StatusCode, header: a.Header, body: read}, nil
}

// sign signs a request as the recorded ones were. It does not use wire.Path, because some
// paths are not valid.
func (r *replay) sign(q *http.Request, path string) {
	parts := strings.FieldsFunc(path, func(c rune) bool { return c == '/' })
	kind, link := "", strings.Join(parts, "/")
	switch n := len(parts); {
	case n%2 == 1:
		kind, link = parts[n-1], strings.Join(parts[:n-1], "/")
	case n > 0:
		kind = parts[n-2]
	}
	date := strings.ToLower(time.Now().UTC().Format(http.TimeFormat)) // all recorded requests had it in lower case
	payload := strings.ToLower(q.Method) + "\n" + kind + "\n" + link + "\n" + date + "\n\n"
	signature := base64.StdEncoding.EncodeToString(r.key.Sign(payload))
	q.Header.Set("x-ms-date", date)
	q.Header.Set("x-ms-version", version)
	q.Header.Set("Authorization", url.QueryEscape("type=master&ver=1.0&sig="+signature))
}

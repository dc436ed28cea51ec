package cosmos_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

// world is an account of several regions, and a transport to it. One server answers for
// all regions. A test can make each region fail.
type world struct {
	server *changefeedtest.Server
	home   string

	mu sync.Mutex // guards the fields below
	// regions are the account's regions. The first one is the write region.
	regions   []string
	multiple  bool
	trouble   map[string]trouble
	asked     []string
	documents int
}

// host returns the host name of the account's endpoint in a region.
func (w *world) host(region string) string {
	account, rest, _ := strings.Cut(w.home, ".")
	return account + "-" + region + "." + rest
}

// Do answers a request for the account itself. It passes any other request to the server,
// unless the request's region fails.
func (w *world) Do(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	trouble := w.trouble[r.URL.Host]
	region := "global"
	for _, name := range w.regions {
		if r.URL.Host == w.host(name) {
			region = name
		}
	}
	if r.URL.Path == "/" {
		w.documents++
	} else {
		w.asked = append(w.asked, region)
	}
	body := w.account()
	w.mu.Unlock()
	if !trouble.none() {
		return trouble.answer(r)
	}
	if r.URL.Path == "/" {
		return &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: int64(len(body)), Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
	}
	r = r.Clone(r.Context())
	r.URL.Host, r.Host = w.home, w.home
	return w.server.Client().Do(r)
}

func (w *world) account() string {
	type location map[string]string
	var all []location
	for _, name := range w.regions {
		all = append(all, location{"name": strings.ToUpper(name[:1]) + name[1:], "databaseAccountEndpoint": "https://" + w.host(name) + "/"})
	}
	writable := all[:1]
	if w.multiple {
		writable = all
	}
	body, err := json.Marshal(map[string]any{
		"writableLocations": writable, "readableLocations": all, "enableMultipleWriteLocations": w.multiple,
		"userConsistencyPolicy": map[string]string{"defaultConsistencyLevel": "Session"},
	})
	if err != nil {
		panic(err)
	}
	return string(body)
}

// fail makes requests to the host fail as how describes.
func (w *world) fail(host string, how trouble) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.trouble[host] = how
}

// taken returns the regions of the requests since the last call, in order. documents is
// the number of requests for the account itself.
func (w *world) taken() (regions string, documents int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	regions, documents = strings.Join(w.asked, " "), w.documents
	w.asked, w.documents = nil, 0
	return regions, documents
}

// trouble describes how a region fails. It returns a status and sub-status, returns err
// instead of a response, cuts the response off, or hangs. The zero value means that it
// does not fail.
type trouble struct {
	status, sub int
	err         error
	cut, hang   bool
}

func (f trouble) none() bool { return f == trouble{} }

// answer returns the response or the error that a client gets from the failing region.
func (f trouble) answer(r *http.Request) (*http.Response, error) {
	switch {
	case f.hang:
		<-r.Context().Done()
		return nil, r.Context().Err()
	case f.err != nil:
		return nil, f.err
	case f.cut:
		return &http.Response{
			StatusCode: 200, ContentLength: 1000, Header: http.Header{"Etag": {`"1"`}}, Request: r,
			Body: io.NopCloser(io.MultiReader(strings.NewReader(`{"Documents":[`), errorReader{})),
		}, nil
	}
	body := wire.ErrorBody{Code: "Trouble", Message: "injected"}.JSON()
	return &http.Response{
		StatusCode: f.status, Status: fmt.Sprint(f.status), ContentLength: int64(len(body)), Body: io.NopCloser(bytes.NewReader(body)), Request: r,
		Header: http.Header{wire.HeaderSubStatus: {fmt.Sprint(f.sub)}, "Content-Type": {"application/json"}},
	}, nil
}

// unreachable is the error of a refused connection.
var unreachable = &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}

type errorReader struct{}

func (errorReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// newWorld returns an account of three regions, of which east is the write region, and a
// source of a container in it.
func newWorld(t *testing.T, o cosmos.Options) (*world, *cosmos.Source) {
	t.Helper()
	s := changefeedtest.NewServer(t)
	changefeedtest.NewContainer(t, s.DB, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/pk"}})
	w := &world{
		server: s, home: strings.Trim(strings.TrimPrefix(s.Endpoint, "http:"), "/"), regions: []string{"east", "north", "west"},
		trouble: map[string]trouble{},
	}
	o.Transport = w
	return w, account(t, s, o).Source("shop", "orders", cosmos.SourceOptions{})
}

func readOnce(t *testing.T, s *cosmos.Source) error {
	t.Helper()
	_, err := s.Read(t.Context(), feed.Request{Partition: feed.Partition{ID: "0"}, From: feed.Beginning()})
	return err
}

func TestReadsGoToThePreferredRegions(t *testing.T) {
	for _, c := range []struct {
		preferred []string
		limit     bool
		want      string
	}{
		{nil, false, "east"},
		{[]string{"West", "North"}, false, "west"},
		{[]string{"Nowhere", "nor th"}, false, "north"},
		{[]string{"Nowhere"}, false, "east"},
		{[]string{"West"}, true, "global"},
	} {
		o := cosmos.Options{PreferredRegions: c.preferred, LimitToEndpoint: c.limit}
		w, source := newWorld(t, o)
		if err := readOnce(t, source); err != nil {
			t.Fatal(err)
		}
		if regions, _ := w.taken(); regions != c.want+" "+c.want {
			t.Errorf("%+v: the regions %q were asked for container and feed; want %q", c, regions, c.want)
		}
	}
}

// One region of the account fails. The source must read from the next region without a
// delay. It must try a region that is unreachable or removed after all others for five
// minutes.
func TestAReadContinuesInTheNextRegion(t *testing.T) {
	for name, c := range map[string]struct {
		how    trouble
		avoids bool
	}{
		"503": {trouble{status: 503, sub: 0}, false}, "500": {trouble{status: 500, sub: 0}, false}, "408": {trouble{status: 408, sub: 0}, false},
		"404/1002":       {trouble{status: 404, sub: wire.SubReadSessionNotAvailable}, false},
		"403/1008":       {trouble{status: 403, sub: 1008}, true},
		"403/3":          {trouble{status: 403, sub: 3}, true},
		"no connection":  {trouble{err: unreachable}, true},
		"an answer lost": {trouble{cut: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, source := newWorld(t, cosmos.Options{PreferredRegions: []string{"west", "north"}})
				if err := readOnce(t, source); err != nil {
					t.Fatal(err)
				}
				w.taken()
				w.fail(w.host("west"), c.how)
				began := time.Now()
				if err := readOnce(t, source); err != nil {
					t.Fatal(err)
				}
				if regions, _ := w.taken(); regions != "west north" || time.Since(began) != 0 {
					t.Errorf("the regions %q were asked in %s; want west, and north at once", regions, time.Since(began))
				}
				want := "west north"
				if c.avoids {
					want = "north"
				}
				if err := readOnce(t, source); err != nil {
					t.Fatal(err)
				}
				if regions, _ := w.taken(); regions != want {
					t.Errorf("then the regions %q were asked; want %q", regions, want)
				}
				w.fail(w.host("west"), trouble{})
				time.Sleep(5*time.Minute + time.Second)
				if err := readOnce(t, source); err != nil {
					t.Fatal(err)
				}
				if regions, documents := w.taken(); regions != "west" || documents != 1 {
					t.Errorf("five minutes later the regions %q were asked, and %d times for the account; want west, and once", regions, documents)
				}
			})
		})
	}
}

// The write region itself lacks the position of a read, as after a restore. The source must
// report that the feed ends before the position. A region that only lags must not be
// reported so, whichever region is asked last.
func TestAPositionThatTheWriteRegionLacksIsLostHistory(t *testing.T) {
	for name, c := range map[string]struct {
		preferred, lacking []string
		from               feed.Start
		lost               bool
	}{
		"all regions, the write region last":  {[]string{"west"}, []string{"west", "east"}, feed.After(`"0"`), true},
		"all regions, the write region first": {[]string{"east", "west"}, []string{"west", "east"}, feed.After(`"0"`), true},
		"a read without a position":           {[]string{"west"}, []string{"west", "east"}, feed.Beginning(), false},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := cosmos.Options{PreferredRegions: c.preferred}
				o.Retry.MaxRetries = 1
				w, source := newWorld(t, o)
				if err := readOnce(t, source); err != nil {
					t.Fatal(err)
				}
				for _, region := range c.lacking {
					w.fail(w.host(region), trouble{status: 404, sub: wire.SubReadSessionNotAvailable})
				}
				_, err := source.Read(t.Context(), feed.Request{Partition: feed.Partition{ID: "0"}, From: c.from})
				lost, ok := errors.AsType[*feed.HistoryLostError](err)
				if ok != c.lost || ok && (!lost.Ended || lost.Oldest != "") {
					t.Errorf("%v; lost history: %t, want %t", err, ok, c.lost)
				}
				if err == nil || errors.Is(err, feed.ErrNotFound) {
					t.Errorf("%v; want an error, which does not say that the container is missing", err)
				}
			})
		})
	}
}

// All regions of the account fail. Each of azcore's attempts must try every region,
// including the write region, and the delays between attempts must begin after that.
func TestAllRegionsFailTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := cosmos.Options{PreferredRegions: []string{"west", "north"}}
		o.Retry.MaxRetries = 1
		w, source := newWorld(t, o)
		if err := readOnce(t, source); err != nil {
			t.Fatal(err)
		}
		w.taken()
		for _, region := range w.regions {
			w.fail(w.host(region), trouble{status: 503, sub: 0})
		}
		if err := readOnce(t, source); err == nil || !strings.Contains(err.Error(), "503") {
			t.Errorf("%v; want the service's answer", err)
		}
		if regions, _ := w.taken(); regions != "west north east west north east" {
			t.Errorf("the regions %q were asked", regions)
		}
	})
}

// A region is removed from the account. The next read must read the account again and use
// another region, although the cached account has not expired.
func TestAFailoverIsLearnedFromTheAccount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, source := newWorld(t, cosmos.Options{})
		if err := readOnce(t, source); err != nil {
			t.Fatal(err)
		}
		w.taken()
		time.Sleep(time.Minute)
		w.mu.Lock()
		w.regions = []string{"north", "west"}
		w.mu.Unlock()
		east := w.host("east")
		w.fail(east, trouble{status: 403, sub: 1008})
		for range 2 {
			if err := readOnce(t, source); err != nil {
				t.Fatal(err)
			}
		}
		regions, documents := w.taken()
		if documents != 1 || regions != "global north north" { // "global" is east, which is tried first and is no region any more
			t.Errorf("the account was asked for %d times, the regions %q were", documents, regions)
		}
		time.Sleep(6 * time.Minute) // the failure of east has expired, but east is still removed
		if err := readOnce(t, source); err != nil {
			t.Fatal(err)
		}
		if regions, _ := w.taken(); regions != "north" {
			t.Errorf("later the regions %q were asked; want north alone", regions)
		}
	})
}

// The account itself cannot be read. A source that has read it before must use the cached
// account. A source without a cached account must return an error.
func TestAnUnreachableAccountIsUsedAsLastRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o cosmos.Options
		o.Retry.MaxRetries = -1
		w, source := newWorld(t, o)
		w.fail(w.home, trouble{status: 503, sub: 0})
		if err := readOnce(t, source); err == nil {
			t.Error("an account that was never read is used")
		}
		w.fail(w.home, trouble{})
		if err := readOnce(t, source); err != nil {
			t.Fatal(err)
		}
		w.fail(w.home, trouble{err: unreachable})
		time.Sleep(6 * time.Minute)
		if err := readOnce(t, source); err != nil {
			t.Errorf("a read while the account cannot be read: %v", err)
		}
	})
}

// A region accepts a request and does not answer. With any transport, the source must try
// the next region after one request timeout.
func TestARegionThatHangsIsGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, source := newWorld(t, cosmos.Options{PreferredRegions: []string{"west", "north"}})
		if err := readOnce(t, source); err != nil {
			t.Fatal(err)
		}
		w.taken()
		w.fail(w.host("west"), trouble{hang: true})
		began := time.Now()
		if err := readOnce(t, source); err != nil {
			t.Fatal(err)
		}
		if regions, _ := w.taken(); regions != "west north" || time.Since(began) != 65*time.Second {
			t.Errorf("the regions %q were asked in %s; want north after 65 s", regions, time.Since(began))
		}
		if err := readOnce(t, source); err != nil {
			t.Fatal(err)
		}
		if regions, _ := w.taken(); regions != "north" {
			t.Errorf("after that the regions %q were asked; want north alone", regions)
		}
	})
}

// A region does not answer, and the deadline of the processor's read is shorter than a
// request timeout. The read fails, but later reads must try another region first.
func TestARegionThatHangsIsAvoidedByReadsWithADeadline(t *testing.T) {
	for _, c := range []struct {
		name   string
		bounds func(context.Context) (context.Context, context.CancelFunc)
		want   string // the region that the next read uses
	}{
		{"a deadline", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 10*time.Second)
		}, "north"},
		{"a deadline too short to blame the region", func(ctx context.Context) (context.Context, context.CancelFunc) {
			return context.WithTimeout(ctx, 100*time.Millisecond)
		}, "west"},
		{"a caller who gives up", func(ctx context.Context) (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(ctx)
			time.AfterFunc(10*time.Second, cancel)
			return ctx, cancel
		}, "west"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, source := newWorld(t, cosmos.Options{PreferredRegions: []string{"west", "north"}})
				if err := readOnce(t, source); err != nil {
					t.Fatal(err)
				}
				w.fail(w.host("west"), trouble{hang: true})
				ctx, cancel := c.bounds(t.Context())
				defer cancel()
				if _, err := source.Read(ctx, feed.Request{Partition: feed.Partition{ID: "0"}, From: feed.Beginning()}); err == nil || ctx.Err() == nil {
					t.Fatalf("the read that hangs ended with %v", err)
				}
				w.fail(w.host("west"), trouble{})
				w.taken()
				if err := readOnce(t, source); err != nil {
					t.Fatal(err)
				}
				if regions, _ := w.taken(); regions != c.want {
					t.Errorf("the regions %q were asked; want %s", regions, c.want)
				}
				time.Sleep(6 * time.Minute)
				if err := readOnce(t, source); err != nil {
					t.Fatal(err)
				}
				if regions, _ := w.taken(); regions != "west" {
					t.Errorf("after a while the regions %q were asked; want west again", regions)
				}
			})
		})
	}
}

// An emulator in a container names an address that is valid only inside the container.
// The error of a read must name that address and the option LimitToEndpoint.
func TestAnUnreachableAddressOfTheAccountIsNamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, source := newWorld(t, cosmos.Options{})
		for _, region := range w.regions {
			w.fail(w.host(region), trouble{err: unreachable})
		}
		if err := readOnce(t, source); err == nil || !strings.Contains(err.Error(), "names the address account-") || !strings.Contains(err.Error(), "LimitToEndpoint") {
			t.Errorf("%v; want the address and the remedy", err)
		}
	})
}

func TestAStartAtATimeIsRefusedByAccountsWithSeveralWriteRegions(t *testing.T) {
	w, source := newWorld(t, cosmos.Options{})
	w.multiple = true
	q := feed.Request{Partition: feed.Partition{ID: "0"}, From: feed.At(time.Now())}
	_, err := source.Read(t.Context(), q)
	if !errors.Is(err, feed.ErrUnsupported) || !strings.Contains(err.Error(), "several write regions") {
		t.Errorf("%v; want it refused by name", err)
	}
	for _, from := range []feed.Start{feed.Now(), feed.Beginning(), feed.At(time.Time{}), feed.After(`"0"`)} {
		q.From = from
		if _, err := source.Read(t.Context(), q); err != nil {
			t.Errorf("from %s: %v", from, err)
		}
	}
}

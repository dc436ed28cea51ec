package cosmos_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/storetype"
)

// logged is a log that several goroutines write.
type logged struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

// taken returns the lines since the last call.
func (l *logged) taken() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	defer l.out.Reset()
	return strings.Split(strings.TrimSuffix(l.out.String(), "\n"), "\n")
}

// byTurns selects the requests for the even partitions, then those for the odd ones, for ten
// seconds each.
func byTurns(r *http.Request) bool {
	id, err := strconv.Atoi(r.Header.Get(wire.HeaderPartitionID))
	return err == nil && int64(id)%2 == time.Now().Unix()/10%2
}

// With six leases, an outage once wrote 93 lines, in which nobody finds the cause.
func TestOneOutageMakesFewLines(t *testing.T) {
	for name, c := range map[string]struct {
		fault server.Fault
		lasts time.Duration
		lines int
		want  []string // regular expressions
	}{
		"a restart of the server": {server.Fault{Drop: true}, 20 * time.Second, 4, []string{
			`msg="requests to the source fail; retrying"`, `msg="requests to the lease store fail; retrying"`,
			`msg="requests to the source succeed again"`, `msg="requests to the lease store succeed again"`,
		}},
		"an outage that outlasts the leases": {server.Fault{Drop: true}, 150 * time.Second, 7, []string{
			`msg="requests to the lease store still fail; retrying"`, "lost=6 regained=0", `leases=6 error="lease store: `, "lost=6 regained=6",
			`msg="requests to the source succeed again"`, `msg="requests to the lease store succeed again"`,
		}},
		"leases that fail by turns": {server.Fault{Operation: "read change feed", Status: 500, Match: byTurns}, 50 * time.Second, 2, []string{
			`msg="requests to the source fail; retrying"`, `msg="requests to the source succeed again"`,
		}},
		"throttling that passes": {server.Fault{Status: 429, SubStatus: 3200, RetryAfter: time.Second}, 20 * time.Second, 0, nil},
		"throttling of the lease store that outlasts the leases": {
			server.Fault{Database: "db", Container: "leases", Status: 429, SubStatus: 3200, RetryAfter: time.Second},
			150 * time.Second, 4,
			[]string{`msg="requests to the lease store fail; retrying"`, `msg="requests to the lease store still fail; retrying"`, "lost=6 regained=6"},
		},
		"throttling of reads that lasts": {
			server.Fault{Operation: "read change feed", Status: 429, SubStatus: 3200, RetryAfter: time.Second},
			150 * time.Second, 3,
			[]string{`msg="requests to the source fail; retrying"`, `for=1m[01]s leases=6`, `msg="requests to the source still fail; retrying"`, `msg="requests to the source succeed again"`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := changefeedtest.NewServer(t)
				changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: "items", KeyPaths: []string{"/pk"}, Partitions: 6})
				changefeedtest.NewContainer(t, s.DB, "db", storetype.ContainerProperties{ID: "leases", KeyPaths: []string{"/id"}})
				var o cosmos.Options
				o.Transport = s.Client()
				if c.fault.Match != nil {
					o.Retry.MaxRetries = -1 // a retry may succeed in the next turn, after any time
				}
				account, err := cosmos.WithKey(s.Endpoint, s.Key, o)
				if err != nil {
					t.Fatal(err)
				}
				var log logged
				p, err := changefeed.New(changefeed.Config{
					Processor: "p", Instance: "host",
					Source: account.Source("db", "items", cosmos.SourceOptions{}), Leases: account.Leases("db", "leases", cosmos.LeaseOptions{}),
					Logger:  slog.New(slog.NewTextHandler(&log, nil)),
					Handler: changefeed.HandlerFunc(func(context.Context, *changefeed.Batch) error { return nil }),
				})
				if err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan error, 1)
				go func() { ended <- p.Run(ctx) }()
				time.Sleep(time.Minute)
				if lines := log.taken(); len(lines) != 6 || !strings.Contains(lines[0], `msg="lease acquired"`) || !strings.HasSuffix(lines[0], "was=free") {
					t.Errorf("the start writes %d lines:\n%s", len(lines), strings.Join(lines, "\n"))
				}
				if _, err := s.Faults().Add(c.fault); err != nil {
					t.Fatal(err)
				}
				time.Sleep(c.lasts)
				s.Faults().Clear()
				time.Sleep(2 * time.Minute)
				lines := log.taken()
				text := strings.Join(lines, "\n")
				if len(lines) > max(c.lines, 1) || c.lines == 0 && text != "" {
					t.Errorf("%d lines:\n%s", len(lines), text)
				}
				if before, _, _ := strings.Cut(text, " for="); c.fault.Status == 429 && strings.Count(before, "retrying") > 1 {
					t.Errorf("throttling is a warning before it lasts or costs leases:\n%s", text)
				}
				for _, want := range c.want {
					if !regexp.MustCompile(want).MatchString(text) {
						t.Errorf("no line has %s:\n%s", want, text)
					}
				}
				stop()
				if err := <-ended; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// Command recorded sends recorded requests of the hosted Azure Cosmos DB to a server, and
// compares its answers with what was recorded, fact by fact.
//
//	go run ./internal/recorded [-v] [-case N]
//	go run ./internal/recorded -endpoint URL [-yes] [-suites] [-report FILE]
//
// Without an endpoint, it asks the server of this module (make azure-recorded). With one, it
// asks an account of yours (make azure), after it has printed what that costs and asked once,
// and prints only what has changed since the recording. It needs a database of its own there,
// named judge, which it creates and deletes. With -suites it then runs the conformance suites and
// a processor in another database of its own, and writes a report.
//
// README.md says where the cases come from, and differences.txt lists the known differences
// of our server. A test compares both.
package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/store"
)

func main() {
	var o options
	flag.StringVar(&o.endpoint, "endpoint", "", "URL of an account to ask, instead of the server of this module")
	flag.StringVar(&o.key, "key", os.Getenv("COSMOS_KEY"), "key of that account (default: COSMOS_KEY)")
	flag.BoolVar(&o.yes, "yes", false, "don't ask before requests are sent to an account")
	flag.BoolVar(&o.suites, "suites", false, "run the conformance suites and a processor against the account, too")
	flag.StringVar(&o.report, "report", "", "Markdown `file` for a report about the account")
	flag.BoolVar(&o.verbose, "v", false, "print every difference")
	flag.IntVar(&o.only, "case", 0, "print only the case with this number, and every difference of it")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := run(ctx, os.Stdin, os.Stdout, o); err != nil {
		fmt.Fprintln(os.Stderr, "recorded:", err)
		os.Exit(1)
	}
}

// options are the flags of the command.
type options struct {
	endpoint, key, report string
	yes, verbose, suites  bool
	only                  int
	client                *http.Client // nil means http.DefaultClient
}

// cost is printed before requests are sent to an account. The figures are those of the
// recording: a database of 400 RU/s, which is billed by the hour, and 2,500 documents.
const cost = `This sends some 180 requests to %s. It creates the database judge with a throughput of
400 RU/s, which is billed for an hour (about 0.03 USD in most regions), stores 2,600 small documents
in it, and deletes it again. It takes about a minute.
`

func run(ctx context.Context, in io.Reader, out io.Writer, o options) error {
	cases, err := loadCases()
	if err != nil {
		return err
	}
	r := &replay{endpoint: strings.TrimSuffix(o.endpoint, "/"), client: cmp.Or(o.client, http.DefaultClient), patient: true}
	text := wire.EmulatorKey
	if o.endpoint != "" {
		text = o.key
	}
	if r.key, err = wire.ParseKey(text); err != nil {
		return fmt.Errorf("the key: %w; pass -key or set COSMOS_KEY", err)
	}
	var replayed strings.Builder
	shown := io.MultiWriter(out, &replayed)
	if o.endpoint == "" {
		end, err := r.serve(ctx)
		if err != nil {
			return err
		}
		defer end()
	} else {
		if err := r.prepare(ctx, in, out, o); err != nil {
			return err
		}
		defer r.drop(context.WithoutCancel(ctx), out, "judge")
	}
	t := newTotals()
	err = r.run(ctx, cases, func(x result) {
		t.add(x)
		switch {
		case o.only != 0 && o.only != x.N:
		case o.endpoint != "": // what has changed since the recording
			if len(x.found) > 0 || o.verbose || o.only != 0 {
				t.print(shown, x, true)
			}
		default:
			t.print(out, x, o.verbose || o.only != 0)
		}
	})
	if err != nil {
		return err
	}
	t.summary(shown)
	if o.endpoint == "" || !o.suites {
		return nil
	}
	return r.judge(ctx, out, o, replayed.String())
}

// serve starts two servers of this module in memory, of which only the second one enforces
// throughput. It answers the bursts. The returned function ends both.
func (r *replay) serve(ctx context.Context) (end func(), err error) {
	endsFirst, _, err := r.serveOne(ctx, false)
	if err != nil {
		return nil, err
	}
	r.bursts = &replay{key: r.key, client: r.client, patient: true}
	endsSecond, db, err := r.bursts.serveOne(ctx, true)
	if err != nil {
		endsFirst()
		return nil, err
	}
	r.bursts.limit = limit(db)
	return func() {
		endsSecond()
		endsFirst()
	}, nil
}

// limit returns a function that sets the throughput of the database judge.
func limit(db *store.DB) func(ctx context.Context, rate int) error {
	return func(ctx context.Context, rate int) error {
		d, err := db.Database(ctx, "judge")
		if err != nil {
			return err
		}
		d.Throughput = rate
		_, err = db.ReplaceDatabase(ctx, d)
		return err
	}
}

// serveOne starts a server. enforce makes it enforce throughput.
func (r *replay) serveOne(ctx context.Context, enforce bool) (end func(), db *store.DB, err error) {
	db, err = store.OpenMemory(store.Options{EnforceThroughput: enforce})
	if err != nil {
		return nil, nil, err
	}
	protocol, err := server.New(db, server.Options{})
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, errors.Join(err, db.Close())
	}
	h := &http.Server{Handler: protocol, ReadHeaderTimeout: time.Minute}
	served := make(chan error, 1)
	go func() { served <- h.Serve(listener) }()
	r.endpoint = "http://" + listener.Addr().String()
	return func() {
		_ = h.Close() // the requests have been answered
		<-served      //nolint:errcheck // ErrServerClosed
		_ = db.Close()
	}, db, nil
}

// prepare asks whether requests may be sent to an account, and checks that the databases
// that are created and deleted there do not exist.
func (r *replay) prepare(ctx context.Context, in io.Reader, out io.Writer, o options) error {
	_, _ = fmt.Fprintf(out, cost, r.endpoint)
	names := []string{"judge"}
	if o.suites {
		_, _ = fmt.Fprint(out, suitesCost)
		names = append(names, suitesDatabase)
	}
	if !o.yes {
		_, _ = fmt.Fprint(out, "Continue? [y/N] ")
		line, err := bufio.NewReader(in).ReadString('\n')
		if answer := strings.ToLower(strings.TrimSpace(line)); answer != "y" && answer != "yes" {
			return fmt.Errorf("nothing was sent: %w", errors.Join(errDeclined, err))
		}
	}
	for _, name := range names {
		a, err := r.send(ctx, &recorded{Method: http.MethodGet, Path: "/dbs/" + name})
		switch {
		case err != nil:
			return err
		case a.status == http.StatusOK:
			return fmt.Errorf("the account has a database named %s, which would be deleted; use another account", name)
		case a.status != http.StatusNotFound:
			return fmt.Errorf("cannot read the database %s: status %d: %.300s", name, a.status, a.body)
		}
	}
	return nil
}

var errDeclined = errors.New("the answer was not yes")

// drop deletes a database, also when the run was interrupted.
func (r *replay) drop(ctx context.Context, out io.Writer, name string) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	a, err := r.send(ctx, &recorded{Method: http.MethodDelete, Path: "/dbs/" + name})
	if err != nil || a.status != http.StatusNoContent && a.status != http.StatusNotFound {
		_, _ = fmt.Fprintf(out, "The database %s could not be deleted: delete it, because it is billed by the hour. %v\n", name, err)
	}
}

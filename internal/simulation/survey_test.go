package simulation

import (
	"context"
	"errors"
	"time"

	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
)

// survey is an estimator that measures the lag of the hosts during a run. Its requests go
// over a link like those of a host.
type survey struct {
	*hostSource

	estimator *estimator.Estimator
	cancel    context.CancelFunc
}

// newSurvey returns an estimator on a link of its own.
func newSurvey(w *world) *survey {
	h := &host{world: w, id: "estimator", party: estimatorParty, joined: time.Now(), dead: make(chan struct{}), done: make(chan struct{}), calls: map[callName]int{}}
	source := feed.Source(forgetfulSource{w.engine.source(), w})
	if w.refuses {
		source = refusingSource{source, w}
	}
	s := &survey{hostSource: &hostSource{host: h, inner: source}}
	cfg := estimator.Config{
		Processor: "sim", Source: s, RequestTimeout: w.times.timeout,
		Leases: dialectContainer{&hostContainer{host: h, inner: w.engine.leases()}, w.dialect},
	}
	var err error
	if s.estimator, err = estimator.New(cfg); err != nil {
		w.fails("cannot create the estimator: %v", err)
	}
	return s
}

// run measures in every interval, until ctx ends.
func (s *survey) run(ctx context.Context, interval time.Duration) {
	defer close(s.host.done)
	for s.host.sleep(ctx, "rest", interval) == nil {
		if s.measure(ctx, underway) == nil {
			s.host.world.occurs(estimates)
		}
	}
}

// start starts the measurements. end ends them and waits.
func (s *survey) start(interval time.Duration) {
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	go s.run(ctx, interval)
}

func (s *survey) end() {
	s.cancel()
	<-s.host.done
}

// measure makes one measurement.
func (s *survey) measure(ctx context.Context, st state) error {
	l, m := s.host.world.ledger, &measurement{state: st}
	l.add(m)
	got, err := s.estimator.Report(ctx)
	l.end(m, func() { m.got, m.err = got, err })
	return err
}

// Read implements [feed.Source].
func (s *survey) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	f := &read{host: s.host, token: tokenOf(r), req: r}
	return send(ctx, call{host: s.host, op: opRead, key: f.token}, func(ctx context.Context) (feed.Page, error) {
		page, err := s.inner.Read(ctx, r)
		if err != nil {
			return page, err
		}
		end := page.End
		page = s.host.alter(page, r, f.token)
		s.host.world.ledger.add(&surveyRead{f, page, end})
		return page, nil
	})
}

// survey returns the survey of a run.
func (r *run) survey() **survey { return stateOf[*survey](&r.world.states) }

// startSurvey starts an estimator.
func (r *run) startSurvey(context.Context) {
	d := newDraw(r.scenario.seed, 0, "survey")
	s := newSurvey(r.world)
	*r.survey() = s
	s.start(d.span(2*time.Second, r.scenario.times.expiration)) //nolint:contextcheck // end stops it
}

// surveyIdle measures when the hosts have handled all changes, so that no change is unread.
func (r *run) surveyIdle(ctx context.Context) {
	s := *r.survey()
	s.end()
	// A position after changes that the filter hides is stored with the next renewal.
	r.sleep(r.world.times.renew + r.world.times.timeout)
	_ = s.measure(ctx, idle)
}

// surveyStopped measures after all hosts have stopped, and more transactions were written.
func (r *run) surveyStopped(ctx context.Context) {
	d := newDraw(r.scenario.seed, 1, "survey")
	for range d.between(1, 20) {
		r.write(ctx)
	}
	_ = (*r.survey()).measure(ctx, stopped)
}

// surveyed is the lag of a lease by the journal at the last read of one measurement.
type surveyed struct {
	from   feed.Start // of the measurement's first read
	unread unread
	page   feed.Page // the page that the estimator received
	// told reports whether the page shows how far the feed goes. An empty page does not if it
	// lacks an LSN, has not advanced, or is before the end but has reached firstEnd.
	told     bool
	firstEnd int64     // the end that the first page showed
	end      int64     // the last LSN of the partition
	now      time.Time // by the service's clock, without its forward jumps during the measurement
}

// lag returns the lag in transactions by the formula of package estimator.
func (m *surveyed) lag() int64 {
	if m == nil || m.unread.transactions == 0 {
		return 0
	}
	return m.end - m.unread.first + 1
}

// surveys is what a view knows of the measurement that is made.
type surveys struct {
	measured map[string]*surveyed // by token
	jumped   time.Duration        // the forward jumps of the store's clock before it
}

func (v *view) surveys() *surveys { return stateOf[surveys](&v.states) }

// measurement lasts while an estimator measures.
type measurement struct {
	got   estimator.Report
	err   error
	state state
}

// concludes implements [observation].
func (*measurement) concludes(v *view, _ bool) {
	*v.surveys() = surveys{map[string]*surveyed{}, v.forward}
}

// surveyRead is the moment at which the source serves a read of an estimator.
type surveyRead struct {
	*read
	page feed.Page
	end  int64 // of the feed, before the page was altered
}

// concludes implements [observation]. It records the lag by the journal.
func (s *surveyRead) concludes(v *view, _ bool) {
	known := v.surveys()
	if known.measured[s.token] == nil {
		known.measured[s.token] = &surveyed{from: s.req.From, firstEnd: s.page.End}
	}
	m := known.measured[s.token]
	m.unread = v.journal.unread(keysOf(v.live, s.req), m.from)
	// The estimator takes the time from its listing of the leases, before this read. If the
	// clock has jumped forward since, the report's ages do not contain the jump.
	m.page, m.end, m.now = s.page, s.end, v.store().Add(known.jumped-v.forward)
	advanced := s.page.Continuation != s.req.From.Continuation()
	m.told = len(s.page.Changes) > 0 || s.page.LSN >= 0 && s.page.End >= 0 && (s.page.LSN >= s.page.End || advanced && s.page.LSN < m.firstEnd)
}

// state says what happens while an estimator measures.
type state int

const (
	underway state = iota // hosts work
	idle                  // hosts have handled everything
	stopped               // all hosts have left
)

func judgeEstimates(v *view, r *measurement, breach report) {
	if r.err != nil {
		breach(r.state != underway, "cannot measure the lag at rest: %v", r.err)
		return
	}
	largest := map[string]int64{} // the largest lag of the leases of each partition
	for _, l := range r.got.Lags {
		judgeLag(v, r, l, breach)
		for _, p := range v.live {
			if l.Known() && !l.Shadowed && p.Range.Contains(l.Range) {
				largest[p.ID] = max(largest[p.ID], v.surveys().measured[l.LeaseToken].lag())
			}
		}
	}
	want := int64(estimator.Unknown)
	for _, n := range largest {
		want = max(want, 0) + n
	}
	t, sum := r.got.Total, estimator.Sum(r.got.Lags)
	// With manual checkpoints, the user may not have checkpointed the last changes.
	behind := (t.LSNs != 0 || t.Age != 0) && !v.checkpoint.Manual
	breach(r.state != underway && (sum.LSNs != t.LSNs || sum.Leases != t.Leases), "the total is %+v; the sum of the lags is %+v", t, sum)
	breach(r.state == idle && (behind || t.Owned != t.Leases || t.Splitting != 0), "the total at rest is %+v", t)
	breach(r.state == stopped && (t.LSNs != want || t.Owned != 0), "the total without hosts is %+v; want %d transactions", t, want)
}

// judgeLag judges the lag of one lease. A lease whose read was answered with a GoneError has
// no partition in the report.
func judgeLag(v *view, r *measurement, l estimator.Lag, breach report) {
	m, atRest := v.surveys().measured[l.LeaseToken], r.state != underway
	d, stored := v.docs[l.LeaseToken]
	breach(atRest && l.Shadowed != (stored && v.shadowed(d)), "wrong is whether the lease is shadowed: %+v", l)
	// The user has not checkpointed the lease, and the source has lost the changes after its
	// position, or refuses its start time.
	_, lost := errors.AsType[*feed.HistoryLostError](l.Err)
	refused := l.Continuation == "" && errors.Is(l.Err, feed.ErrUnsupported) && v.refuses
	unmeasurable := v.checkpoint.Manual && (lost || refused)
	switch {
	case l.Err != nil || !l.Known() && (l.Unstarted || l.Splitting && l.Partition == ""):
		breach(atRest && !l.Shadowed && !unmeasurable, "unknown at rest: %+v", l)
		return
	case m == nil || m.from.Continuation() != l.Continuation:
		breach(true, "nobody read the lease from this position: %+v", l)
		return
	case !m.told:
		return
	case m.page.End < 0 && len(m.page.Changes) > 0:
		breach(l.Known(), "known, though the source has not returned the end of the feed: %+v", l)
	case l.LSNs < m.unread.transactions:
		breach(true, "too low: %+v; unread is %+v", l, m.unread)
	case m.from.Kind() == feed.StartTime:
		return // on a merged partition, older changes may follow the start
	default:
		breach(l.LSNs != m.lag(), "not %d: %+v; unread is %+v", m.lag(), l, m.unread)
	}
	// Without a clock of the store, the age is a difference between two clocks. With one,
	// the estimator adds the time since the listing by its own clock, which drifts.
	age, none := m.now.Sub(m.unread.at)-2*time.Second, m.unread.transactions == 0
	young := !none && !v.clockless && l.Age < age
	breach(!l.Oldest.Equal(m.unread.at) || young || atRest && none && l.Age != 0, "the age is not %s or more: %+v; unread is %+v", age, l, m.unread)
}

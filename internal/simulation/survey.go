package simulation

import (
	"context"
	"math"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/estimator"
	"github.com/changefeed-go/changefeed/feed"
)

// survey is an estimator that measures the lag of the hosts during a run. Its requests go
// over a link like those of a host. When the source serves a read, survey computes the lag
// from the journal. So the two numbers are of the same moment.
type survey struct {
	*hostSource

	estimator *estimator.Estimator
	cancel    context.CancelFunc

	mu    sync.Mutex // guards the fields below
	reads map[string]*surveyed
	// jumped is by how much the store's clock had jumped forward when the measurement
	// began.
	jumped time.Duration
}

// surveyed is the lag of a lease by the journal when the source served the last read of
// one measurement.
type surveyed struct {
	from   feed.Start // of the measurement's first read
	unread unread
	page   feed.Page // the page that the estimator received
	// told reports whether the page shows how far the feed goes. It does not if it is
	// empty and has not advanced, or lacks an LSN. Nor does it if it is empty and before
	// the end, but has reached firstEnd: the end that the first page showed.
	told     bool
	firstEnd int64
	end      int64     // the last LSN of the partition
	now      time.Time // by the service's clock, without its forward jumps during the measurement
}

// newSurvey returns an estimator on a link of its own.
func newSurvey(w *world) *survey {
	h := &host{world: w, id: "estimator", party: estimatorParty, joined: time.Now(), dead: make(chan struct{}), done: make(chan struct{}), calls: map[callName]int{}}
	s := &survey{hostSource: &hostSource{host: h, inner: w.engine.source()}}
	cfg := estimator.Config{
		Processor: "sim", Source: s, RequestTimeout: w.times.timeout,
		Leases: dialectContainer{&hostContainer{host: h, inner: w.engine.leases()}, w.dialect},
	}
	var err error
	if s.estimator, err = estimator.New(cfg); err != nil {
		w.check.fail(20, "cannot create the estimator: %v", err)
	}
	return s
}

// run measures in every interval, until ctx ends.
func (s *survey) run(ctx context.Context, interval time.Duration) {
	defer close(s.host.done)
	for s.host.sleep(ctx, "rest", interval) == nil {
		if report, err := s.measure(ctx); err == nil {
			s.host.world.occurs(estimates)
			s.host.world.check.estimated(s, report, false)
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

// lag returns the lag of a lease by the journal when its last read was served.
func (s *survey) lag(token string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reads[token].lag()
}

// lag returns the lag in transactions by the formula of package estimator.
func (m *surveyed) lag() int64 {
	if m == nil || m.unread.transactions == 0 {
		return 0
	}
	return m.end - m.unread.first + 1
}

// measure makes one measurement.
func (s *survey) measure(ctx context.Context) (estimator.Report, error) {
	s.mu.Lock()
	s.reads, s.jumped = map[string]*surveyed{}, s.host.world.check.jumpedForward()
	s.mu.Unlock()
	return s.estimator.Report(ctx)
}

// Read implements [feed.Source].
func (s *survey) Read(ctx context.Context, r feed.Request) (feed.Page, error) {
	token := r.Partition.ID
	if token == "" {
		token = r.Range.String()
	}
	w := s.host.world
	return send(ctx, call{host: s.host, op: opRead, key: token}, func(ctx context.Context) (feed.Page, error) {
		if w.refuses && r.From.Kind() == feed.StartTime {
			return feed.Page{}, feed.ErrUnsupported
		}
		if err := w.historyLost(r); err != nil {
			return feed.Page{}, err
		}
		page, err := s.inner.Read(ctx, r)
		if err != nil {
			return page, err
		}
		end := page.End
		page = s.alter(page, r, token)
		s.served(token, r, page, end)
		return page, nil
	})
}

// served records the lag by the journal when the source serves a read.
func (s *survey) served(token string, r feed.Request, page feed.Page, end int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.reads[token]
	if m == nil {
		m = &surveyed{from: r.From, firstEnd: page.End}
		s.reads[token] = m
	}
	m.unread = s.host.world.journal.unread(s.host.world.keysOf(r), m.from)
	// The estimator takes the time from its listing of the leases, before this read. If the
	// clock has jumped forward since, the report's ages do not contain the jump.
	w := s.host.world
	m.page, m.end, m.now = page, end, w.engine.now().Add(s.jumped-w.check.jumpedForward())
	advanced := page.Continuation != r.From.Continuation()
	m.told = len(page.Changes) > 0 || page.LSN >= 0 && page.End >= 0 && (page.LSN >= page.End || advanced && page.LSN < m.firstEnd)
}

// unread describes the changes of a range that follow a position and that the change feed
// contains, in order of their LSNs.
type unread struct {
	transactions int64 // number of different LSNs
	first        int64 // LSN of the first change
	at           time.Time
}

// unread returns the unread changes of range r after the start of a read.
func (j *journal) unread(r feed.Range, from feed.Start) unread {
	j.mu.Lock()
	defer j.mu.Unlock()
	var lsn int64
	if from.Kind() == feed.StartContinuation {
		lsn, _ = lsnOf(from.Continuation()) // the source has accepted the text
	}
	var u unread
	var last int64
	for _, e := range j.between(r, lsn, math.MaxInt64) {
		if from.Kind() == feed.StartTime && e.at.Before(from.Time()) || !j.contains(e) {
			continue
		}
		if u.transactions == 0 {
			u.first, u.at = e.lsn, e.at
		}
		if e.lsn != last {
			u.transactions++
		}
		last = e.lsn
	}
	return u
}

// startSurvey starts an estimator.
func (r *run) startSurvey() {
	d := newDraw(r.scenario.seed, 0, "survey")
	r.survey = newSurvey(r.world)
	r.survey.start(d.span(2*time.Second, r.scenario.times.expiration))
}

// surveyIdle checks the report of the estimator when the hosts have handled all changes:
// no change is unread.
func (r *run) surveyIdle(ctx context.Context) {
	if r.survey == nil {
		return
	}
	r.survey.end()
	// A position after changes that the filter hides is stored with the next renewal.
	r.sleep(r.world.times.renew + r.world.times.timeout)
	t := r.measureAtRest(ctx).Total
	// With manual checkpoints, the user may not have checkpointed the last changes.
	if behind := t.LSNs != 0 || t.Age != 0; behind && !r.world.checkpoint.Manual || t.Owned != t.Leases || t.Splitting != 0 {
		r.world.check.fail(20, "the total at rest is %+v; want no lag and only owned leases", t)
	}
}

// surveyStopped checks the report of the estimator after all hosts have stopped, and
// more transactions were written.
func (r *run) surveyStopped(ctx context.Context) {
	if r.survey == nil {
		return
	}
	d := newDraw(r.scenario.seed, 1, "survey")
	for range d.between(1, 20) {
		r.write(ctx)
	}
	report := r.measureAtRest(ctx)
	largest := map[string]int64{} // by partition
	parts := r.world.engine.partitions()
	for _, l := range report.Lags {
		for _, p := range parts {
			if l.Known() && !l.Shadowed && p.Range.Contains(l.Range) {
				largest[p.ID] = max(largest[p.ID], r.survey.lag(l.LeaseToken))
			}
		}
	}
	want := int64(estimator.Unknown)
	for _, n := range largest {
		want = max(want, 0) + n
	}
	if t := report.Total; t.LSNs != want || t.Owned != 0 {
		r.world.check.fail(20, "the total without hosts is %+v; want %d transactions and no owned leases", t, want)
	}
}

// measureAtRest makes a measurement without faults, checks it, and returns it.
func (r *run) measureAtRest(ctx context.Context) estimator.Report {
	check := r.world.check
	report, err := r.survey.measure(ctx)
	if err != nil {
		check.fail(20, "cannot measure the lag at rest: %v", err)
	}
	check.estimated(r.survey, report, true)
	if sum := estimator.Sum(report.Lags); sum.LSNs != report.Total.LSNs || sum.Leases != report.Total.Leases {
		check.fail(20, "the total is %+v; the sum of the lags is %+v", report.Total, sum)
	}
	return report
}

package simulation

import (
	"context"
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
	s := &survey{hostSource: &hostSource{host: h, inner: w.engine.source()}}
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
		return s.serve(ctx, f, true)
	})
}

// startSurvey starts an estimator.
func (r *run) startSurvey() {
	d := newDraw(r.scenario.seed, 0, "survey")
	r.survey = newSurvey(r.world)
	r.survey.start(d.span(2*time.Second, r.scenario.times.expiration))
}

// surveyIdle measures when the hosts have handled all changes, so that no change is unread.
func (r *run) surveyIdle(ctx context.Context) {
	if r.survey == nil {
		return
	}
	r.survey.end()
	// A position after changes that the filter hides is stored with the next renewal.
	r.sleep(r.world.times.renew + r.world.times.timeout)
	_ = r.survey.measure(ctx, idle)
}

// surveyStopped measures after all hosts have stopped, and more transactions were written.
func (r *run) surveyStopped(ctx context.Context) {
	if r.survey == nil {
		return
	}
	d := newDraw(r.scenario.seed, 1, "survey")
	for range d.between(1, 20) {
		r.write(ctx)
	}
	_ = r.survey.measure(ctx, stopped)
}

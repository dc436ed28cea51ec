package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// director runs the play of a plan: it starts and stops everything of a run. Its
// methods run on one goroutine, besides write and say.
type director struct {
	cfg   Config
	data  dataset
	at    places
	tally *tally
	began time.Time

	plan     plan
	progress *progress
	hosts    []member
	// first and second are the two waves of writes.
	first, second *wave
	// parts is what the last look showed; shownAt and shownDelivered belong to it.
	parts          []part
	shownAt        time.Time
	shownDelivered int

	// voice keeps the lines of several goroutines apart.
	voice sync.Mutex
}

// member is a host as the play has it: in this process, or one of its own.
type member interface {
	called() string
	// doom makes the next batch the host's last: it crashes in the middle.
	doom()
	// crash lets the host crash now, if it hasn't.
	crash(how string, args ...any)
	crashed() bool
	// stop begins the host's end, and end waits for it.
	stop()
	end() error
}

const (
	// tick is the time between two looks at the progress.
	tick = 200 * time.Millisecond
	// patience is how long the copy may stand still before the run is judged as
	// it is: several times what a takeover needs.
	patience = 30 * time.Second
	// lastWait is how long a host that is to crash may wait for a batch to do it in.
	lastWait = 3 * time.Second
)

// say tells people what happens.
func (d *director) say(format string, args ...any) {
	d.voice.Lock()
	defer d.voice.Unlock()
	d.cfg.View.Say(time.Since(d.began), fmt.Sprintf(format, args...))
}

// run plays the plan: it returns when everything is copied, or stands still, and
// every writer and host has ended.
func (d *director) run(ctx context.Context) (err error) {
	d.prepareWaves()
	if d.progress, err = newProgress(ctx, d.at); err != nil {
		return err
	}
	d.introduce()
	defer func() { err = errors.Join(err, d.endHosts()) }()
	if err := d.join(ctx); err != nil {
		return err
	}

	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var writing sync.WaitGroup
	writing.Go(func() {
		if err := d.write(ctx); err != nil {
			cancel(err)
		}
	})
	if err := d.play(ctx); err != nil {
		cancel(err)
	}
	writing.Wait()
	if err := context.Cause(ctx); err != nil {
		return err
	}
	return d.finish(ctx)
}

// prepareWaves makes the plan and the two waves of writes.
func (d *director) prepareWaves() {
	d.plan = newPlan(d.cfg.Seed, len(d.data.records), d.cfg.Hosts)
	var all, updated []int
	for row := range d.data.records {
		all = append(all, row)
		if d.plan.updates(row) {
			updated = append(updated, row)
		}
	}
	d.first = &wave{data: d.data, to: d.at.source, tally: d.tally, lasts: d.plan.wave, rows: all, write: insert}
	d.second = &wave{data: d.data, to: d.at.source, tally: d.tally, lasts: d.plan.wave / 4, rows: updated, write: update}
}

// introduce says what will be done and by which rules.
func (d *director) introduce() {
	d.say("%s records (id: %s) are written to %s, key %s, %d partitions",
		thousands(len(d.data.records)), d.data.ids, d.at.source.name, keyPath(d.data.key), partitions)
	d.say("meanwhile hosts copy them to %s, key %s; seed %d", d.at.target.name, keyPath(d.data.newKey), d.cfg.Seed)
	d.say("acquire, renew and request timeout are %s, expiration is %s:", acquireInterval, expiration)
	d.say("the defaults would need over a minute to notice a crash")
	if d.cfg.Data != "" {
		d.say("the store in %s is kept: a run that is killed is finished by the next", d.cfg.Data)
	}
	if d.tally.before > 0 {
		d.say("an earlier run wrote records here: what it left to be delivered counts as \"from before\"")
	}
}

// write writes both waves.
func (d *director) write(ctx context.Context) error {
	if err := d.first.run(ctx); err != nil {
		return err
	}
	d.say("all records are written; a second wave updates %s of them", thousands(len(d.second.rows)))
	return d.second.run(ctx)
}

// play lets happen what the plan has for the first wave, each at its moment, and
// returns at the end of the second.
func (d *director) play(ctx context.Context) error {
	for _, moment := range d.plan.joins {
		if err := d.until(ctx, func() bool { return d.first.share() >= moment }); err != nil {
			return err
		}
		if err := d.join(ctx); err != nil {
			return err
		}
	}
	if err := d.until(ctx, func() bool { return d.first.share() >= d.plan.split }); err != nil {
		return err
	}
	if err := d.split(ctx); err != nil {
		return err
	}
	if err := d.until(ctx, func() bool { return d.first.share() >= d.plan.crash }); err != nil {
		return err
	}
	if err := d.crash(ctx); err != nil {
		return err
	}
	return d.until(ctx, func() bool { return d.second.share() >= 1 || len(d.second.rows) == 0 })
}

// until shows the progress until done, or the end of ctx.
func (d *director) until(ctx context.Context, done func() bool) error {
	for !done() {
		if _, err := d.look(ctx); err != nil {
			return err
		}
		if err := pause(ctx, tick); err != nil {
			return err
		}
	}
	return nil
}

// join starts the next host. Hosts outlive ctx: they are stopped at the end, in the
// same way whatever the end is.
func (d *director) join(ctx context.Context) error {
	name := fmt.Sprintf("host-%d", len(d.hosts)+1)
	h, err := d.start(context.WithoutCancel(ctx), name)
	if err != nil {
		return err
	}
	d.hosts = append(d.hosts, h)
	d.say("%s joins", name)
	return nil
}

// start starts a host.
func (d *director) start(ctx context.Context, name string) (member, error) {
	if s, ok := d.at.engine.(*served); ok {
		return startProcess(ctx, name, s, d.at, d.data.newKey, d.tally, d.say)
	}
	return startHost(ctx, name, d.at, d.tally, d.cfg.Metrics, d.say)
}

// split splits a partition, while it is written to and read.
func (d *director) split(ctx context.Context) error {
	live, err := d.at.source.source().Partitions(ctx)
	if err != nil {
		return fmt.Errorf("list the partitions: %w", err)
	}
	p := live[int(d.plan.splitAt*float64(len(live)))]
	children, err := d.at.source.split(ctx, p.ID)
	if err != nil {
		return fmt.Errorf("split partition %s: %w", p.ID, err)
	}
	d.say("partition %s is split into %s and %s", p.ID, children[0], children[1])
	return nil
}

// crash lets a host crash that has a lease: the planned one, or the next that has.
// Where it was the only one, another takes its place.
func (d *director) crash(ctx context.Context) error {
	victim := d.hosts[d.plan.victim]
	for i := range d.hosts {
		if h := d.hosts[(d.plan.victim+i)%len(d.hosts)]; d.tally.holds(h.called()) {
			victim = h
			break
		}
	}
	victim.doom()
	waited := time.Now()
	if err := d.until(ctx, func() bool {
		return victim.crashed() || time.Since(waited) > lastWait
	}); err != nil {
		return err
	}
	victim.crash("between two batches")
	if len(d.hosts) == 1 {
		return d.join(ctx)
	}
	return nil
}

// finish waits until the copy has caught up, or stands still.
func (d *director) finish(ctx context.Context) error {
	d.say("everything is written; waiting for the copy to catch up")
	moved, last := time.Now(), d.sign()
	for {
		caughtUp, err := d.look(ctx)
		if err != nil || caughtUp {
			return err
		}
		if sign := d.sign(); sign != last {
			moved, last = time.Now(), sign
		}
		if time.Since(moved) > patience {
			d.say("nothing has moved for %s: giving up", patience)
			return nil
		}
		if err := pause(ctx, tick); err != nil {
			return err
		}
	}
}

// sign is a text that changes whenever a position or an owner does.
func (d *director) sign() string {
	var s string
	for _, p := range d.parts {
		s += fmt.Sprint(p.token, p.host, p.position, ";")
	}
	return s
}

// look takes a look at the leases, and shows it.
func (d *director) look(ctx context.Context) (caughtUp bool, err error) {
	d.parts, caughtUp, err = d.progress.look(ctx)
	if err != nil {
		return false, err
	}
	now := time.Now()
	s := Snapshot{Elapsed: now.Sub(d.began), Records: len(d.data.records), parts: d.parts}
	d.tally.count(&s)
	if since := now.Sub(d.shownAt); since >= time.Second {
		if !d.shownAt.IsZero() {
			s.Rate = float64(s.Delivered+s.Earlier-d.shownDelivered) / since.Seconds()
		}
		d.shownAt, d.shownDelivered = now, s.Delivered+s.Earlier
	} else {
		s.Rate = -1
	}
	for _, h := range d.hosts {
		s.hosts = append(s.hosts, hostState{name: h.called(), crashed: h.crashed()})
	}
	d.voice.Lock()
	defer d.voice.Unlock()
	d.cfg.View.Show(s)
	return caughtUp, nil
}

// endHosts stops all hosts and waits for them.
func (d *director) endHosts() error {
	for _, h := range d.hosts {
		h.stop()
	}
	var errs []error
	for _, h := range d.hosts {
		errs = append(errs, h.end())
	}
	return errors.Join(errs...)
}

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/interop/internal/harness"
)

// scenes are all plays. Those that are short make the run that each submission gets.
var scenes = []struct {
	name  string
	modes []string
	short bool
	play  func(ctx context.Context, s *scene) error
}{
	{"short", []string{handleChanges, latestVersion}, true, shortScene},
	{"balance", []string{handleChanges, latestVersion, allVersions}, false, balance},
	{"kills", []string{handleChanges, latestVersion, allVersions}, false, kills},
	{"resume", []string{handleChanges, latestVersion, allVersions}, false, resume},
	{"topology", []string{handleChanges, latestVersion, allVersions}, false, topology},
	{"stops", []string{handleChanges, latestVersion, allVersions}, false, stops},
	{"rolling", []string{handleChanges, latestVersion, allVersions}, false, rolling},
	{"busy", []string{handleChanges, latestVersion, allVersions}, false, busy},
	{"time", []string{handleChanges, latestVersion}, false, fromTime},
	{"upgrade", []string{handleChanges}, false, upgrade},
	{"names", []string{latestVersion}, false, names},
	{"timestamps", []string{handleChanges, latestVersion}, false, timestamps},
}

// steps runs one after the other, to the first error.
func steps(all ...func() error) error {
	for _, step := range all {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// begin starts hosts, has all leases positioned, and the writer write.
func (s *scene) begin(ctx context.Context, hosts ...string) error {
	return steps(
		func() error { return s.start(ctx, hosts...) },
		func() error { return s.positioned(ctx) },
		func() error { s.writer.start(ctx); return nil },
		func() error { return s.settled(ctx, partitions, hosts...) },
	)
}

// shortScene: a Java host and one of ours balance; each is killed once, and the other takes over; a partition is split, and in the second dialect two are
// merged; they stop in good order.
func shortScene(ctx context.Context, s *scene) error {
	return steps(
		func() error { return s.begin(ctx, "java-a", "go-a") },
		func() error { return s.delivers(ctx, "java-a", "go-a") },
		func() error { s.kill("java-a"); return s.settled(ctx, partitions, "go-a") },
		func() error { return s.start(ctx, "java-b") },
		func() error { return s.settled(ctx, partitions, "java-b", "go-a") },
		func() error { return s.delivers(ctx, "java-b", "go-a") },
		func() error { s.kill("go-a"); return s.settled(ctx, partitions, "java-b") },
		func() error { return s.start(ctx, "go-b") },
		func() error { return s.settled(ctx, partitions, "java-b", "go-b") },
		func() error { return s.delivers(ctx, "java-b", "go-b") },
		func() error { return s.split(ctx, "java-b", "go-b") },
		func() error { return s.merge(ctx, "java-b", "go-b") },
		func() error { return s.judge(ctx, "java-b", "go-b") },
	)
}

// balance: two Java hosts, one of ours joins, and another; each gets its share of the leases, and keeps it.
func balance(ctx context.Context, s *scene) error {
	return steps(
		func() error { return s.begin(ctx, "java-a", "java-b") },
		func() error { return s.start(ctx, "go-a") },
		func() error { return s.settled(ctx, partitions, "java-a", "java-b", "go-a") },
		func() error { return s.start(ctx, "go-b") },
		func() error { return s.settled(ctx, partitions, "java-a", "java-b", "go-a", "go-b") },
		func() error { return s.delivers(ctx, "java-a", "java-b", "go-a", "go-b") },
		func() error { return s.restful(ctx, 10*time.Second) },
		func() error { return s.judge(ctx, "java-a", "java-b", "go-a", "go-b") },
	)
}

// restful is an error when leases change hands within some time.
func (s *scene) restful(ctx context.Context, d time.Duration) error {
	owners := func() (string, error) {
		all, err := s.leases(ctx)
		text := ""
		for _, l := range all {
			text += *l.LeaseToken + ": " + l.host() + "; "
		}
		return text, err
	}
	before, err := owners()
	if err != nil {
		return err
	}
	if err := pause(ctx, d); err != nil {
		return err
	}
	after, err := owners()
	if err == nil && before != after {
		err = fmt.Errorf("the leases are shared evenly, and change hands: %s, then %s", before, after)
	}
	return err
}

// kills: in each direction, with several hosts on either side; and once the last host of one side.
func kills(ctx context.Context, s *scene) error {
	return steps(
		func() error { return s.begin(ctx, "java-a", "go-a", "go-b") },
		func() error { s.kill("java-a"); return s.settled(ctx, partitions, "go-a", "go-b") },
		func() error { s.kill("go-a"); return s.settled(ctx, partitions, "go-b") },
		func() error { return s.start(ctx, "java-b") },
		func() error { return s.settled(ctx, partitions, "go-b", "java-b") },
		func() error { s.kill("go-b"); return s.settled(ctx, partitions, "java-b") },
		func() error { return s.start(ctx, "go-c") },
		func() error { s.kill("java-b"); return s.settled(ctx, partitions, "go-c") }, // perhaps in the middle of a steal
		func() error { return s.judge(ctx, "go-c") },
	)
}

// resume: a host is killed in the middle of a backlog, and one of the other side goes on from its positions: no change is left out, and of
// each lease at most one batch comes again.
func resume(ctx context.Context, s *scene) error {
	for _, turn := range [][2]string{{"go-a", "java-a"}, {"java-b", "go-b"}} {
		first, second := turn[0], turn[1]
		if err := s.start(ctx, first); err != nil {
			return err
		}
		if err := s.positioned(ctx); err != nil {
			return err
		}
		if err := s.settled(ctx, partitions, first); err != nil {
			return err
		}
		// A backlog: written while no handler returns.
		var middle <-chan struct{}
		if err := steps(
			func() error { return s.command(ctx, "block", first) },
			func() error { return s.writer.write(ctx, 2400) },
			func() error { middle = s.deliveries.reached(first, 200); return s.command(ctx, "unblock", first) },
		); err != nil {
			return err
		}
		select {
		case <-middle:
		case <-time.After(patience):
			return fmt.Errorf("%s delivered %d changes and no more", first, s.deliveries.count(first))
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		before := s.deliveries.again()
		s.kill(first)
		left := len(s.deliveries.missing())
		s.logf("%d changes are left", left)
		if left == 0 {
			return fmt.Errorf("%s had delivered everything before it was killed", first)
		}
		s.writer.start(ctx)
		if err := s.start(ctx, second); err != nil {
			return err
		}
		if err := s.settled(ctx, partitions, second); err != nil {
			return err
		}
		if err := s.judge(ctx, second); err != nil {
			return err
		}
		again := s.deliveries.again() - before
		s.logf("%d changes came again after %s was killed and %s went on", again, first, second)
		if again > partitions*batch {
			return fmt.Errorf("%d changes came again, and at most a batch of each lease may: %d", again, partitions*batch)
		}
	}
	return nil
}

// topology: splits while each side owns the leases, and merges where the dialect has them.
func topology(ctx context.Context, s *scene) error {
	return steps(
		func() error { return s.begin(ctx, "java-a", "go-a") },
		func() error { return s.split(ctx, "java-a", "go-a") },
		func() error { return s.splitOf(ctx, "go-a", "java-a", "go-a") },
		func() error { return s.merge(ctx, "java-a", "go-a") },
		func() error { return s.judge(ctx, "java-a", "go-a") },
	)
}

// split divides a partition whose lease a Java host has.
func (s *scene) split(ctx context.Context, hosts ...string) error {
	return s.splitOf(ctx, "java", hosts...)
}

// splitOf divides a partition whose lease a host has whose name begins so, and waits for the balance afterwards.
func (s *scene) splitOf(ctx context.Context, owner string, hosts ...string) error {
	all, err := s.leases(ctx)
	if err != nil {
		return err
	}
	live, err := s.Client.Partitions(ctx, s.monitored)
	if err != nil {
		return err
	}
	for _, p := range live {
		for _, l := range all {
			if (*l.LeaseToken == p.ID || *l.LeaseToken == p.Min+"-"+p.Max) && len(l.host()) >= len(owner) && l.host()[:len(owner)] == owner {
				if _, err := s.Client.Split(ctx, s.monitored, p.ID); err != nil {
					return err
				}
				s.logf("partition %s, of %s, is split", p.ID, l.host())
				return s.settled(ctx, len(all)+1, hosts...)
			}
		}
	}
	return fmt.Errorf("no partition's lease is of %s", owner)
}

// merge joins two partitions, in the second dialect: there each lease stays, and reads its part of what was made.
func (s *scene) merge(ctx context.Context, hosts ...string) error {
	if s.mode == handleChanges {
		return nil
	}
	all, err := s.leases(ctx)
	if err != nil {
		return err
	}
	live, err := s.Client.Partitions(ctx, s.monitored)
	if err != nil {
		return err
	}
	made, err := s.Client.Merge(ctx, s.monitored, live[0].ID)
	if err != nil {
		return err
	}
	s.logf("partitions %s and %s are merged into %s", live[0].ID, live[1].ID, made[0].ID)
	if err := pause(ctx, 3*time.Second); err != nil { // the leases are found out, released and taken again
		return err
	}
	if err := s.settled(ctx, len(all), hosts...); err != nil {
		return err
	}
	return s.delivers(ctx, hosts...)
}

// delivers waits until each of these hosts delivers something from now on: of a stolen lease ours begin to read an expiration later.
func (s *scene) delivers(ctx context.Context, hosts ...string) error {
	mark := s.deliveries.mark()
	for _, h := range hosts {
		err := s.eventually(ctx, func() (bool, error) { return len(s.deliveries.since(mark, h)) > 0, nil })
		if err != nil {
			return fmt.Errorf("%s delivers changes: %w", h, err)
		}
	}
	s.logf("%v deliver", hosts)
	return nil
}

// stops: hosts stop in good order, ours first and Java's first, and come back.
func stops(ctx context.Context, s *scene) error {
	return steps(
		func() error { return s.begin(ctx, "java-a", "go-a") },
		func() error { return s.stop(ctx, "go-a") },
		func() error { return s.settled(ctx, partitions, "java-a") },
		func() error { return s.start(ctx, "go-b") },
		func() error { return s.settled(ctx, partitions, "java-a", "go-b") },
		func() error { return s.stop(ctx, "java-a") },
		func() error { return s.settled(ctx, partitions, "go-b") },
		func() error { return s.start(ctx, "java-b") },
		func() error { return s.settled(ctx, partitions, "java-b", "go-b") },
		func() error { return s.judge(ctx, "go-b", "java-b") },
	)
}

// rolling: a deployment of Java hosts is replaced by ours, one after the other, and ours by Java's again.
func rolling(ctx context.Context, s *scene) error {
	if err := s.begin(ctx, "java-a", "java-b"); err != nil {
		return err
	}
	now := []string{"java-a", "java-b"}
	for _, next := range []string{"go-a", "go-b", "java-c", "java-d"} {
		if err := s.stop(ctx, now[0]); err != nil {
			return err
		}
		now = []string{now[1], next}
		if err := steps(
			func() error { return s.start(ctx, next) },
			func() error { return s.settled(ctx, partitions, now...) },
			func() error { return s.delivers(ctx, now...) },
		); err != nil {
			return err
		}
	}
	return s.judge(ctx, now...)
}

// busy: a lease is taken from a host whose handler doesn't return meanwhile. A Java host's is stolen, waited for, and read again from
// its position; ours are asked for by our own, and stolen by Java's at once.
func busy(ctx context.Context, s *scene) error {
	for _, turn := range [][2]string{{"java-a", "go-a"}, {"go-b", "java-b"}} {
		owner, thief := turn[0], turn[1]
		err := steps(
			func() error { return s.begin(ctx, owner) },
			func() error { return s.command(ctx, "block", owner) },
			func() error { return s.start(ctx, thief) },
			func() error { return s.settled(ctx, partitions, owner, thief) },
			func() error { return s.delivers(ctx, thief) }, // its handlers return after its leases have been used by another
			func() error { return s.command(ctx, "unblock", owner) },
			func() error { return s.judge(ctx, owner, thief) },
		)
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *scene) command(ctx context.Context, verb, host string) error {
	s.mu.Lock()
	p := s.hosts[host]
	s.mu.Unlock()
	s.logf("%s: %s", host, verb)
	return p.Command(ctx, verb+" "+host)
}

// replaceLease writes a lease document over the one that is there.
func (s *scene) replaceLease(ctx context.Context, l lease, document string) error {
	return s.Client.Replace(ctx, s.leaseContainer, l.ID, l.ID, document, l.ETag)
}

// documents are the texts of all documents of the lease container, whoever's they are.
func (s *scene) documents(ctx context.Context) ([]string, error) {
	all, err := s.Client.Documents(ctx, harness.Container{Database: s.database, Name: s.leaseContainer.Name})
	var texts []string
	for _, d := range all {
		texts = append(texts, string(d))
	}
	return texts, err
}

package mixed

import (
	"strings"
	"time"
)

// short balances the leases between a Java host and our host. Each host is killed once,
// and the other must acquire its leases. A partition splits, and in the second dialect
// two partitions merge. At the end both hosts stop.
func short(s *scene) {
	s.begin("java-a", "go-a")
	s.delivers("java-a", "go-a")
	s.kill("java-a")
	s.settled(partitions, "go-a")
	s.start("java-b")
	s.settled(partitions, "java-b", "go-a")
	s.delivers("java-b", "go-a")
	s.kill("go-a")
	s.settled(partitions, "java-b")
	s.start("go-b")
	s.settled(partitions, "java-b", "go-b")
	s.delivers("java-b", "go-b")
	s.split("java", "java-b", "go-b")
	s.merge("java-b", "go-b")
	s.judge("java-b", "go-b")
}

// balance adds two of our hosts to two Java hosts, one after the other. Each host must
// get a fair share of the leases, and keep it.
func balance(s *scene) {
	s.begin("java-a", "java-b")
	s.start("go-a")
	s.settled(partitions, "java-a", "java-b", "go-a")
	s.start("go-b")
	s.settled(partitions, "java-a", "java-b", "go-a", "go-b")
	s.delivers("java-a", "java-b", "go-a", "go-b")
	owners := func() string {
		text := ""
		for _, l := range s.leases() {
			text += *l.LeaseToken + ": " + l.host() + "; "
		}
		return text
	}
	before := owners()
	time.Sleep(10 * time.Second)
	if after := owners(); before != after {
		s.Fatalf("the leases are shared evenly, and change hands: %s, then %s", before, after)
	}
	s.judge("java-a", "java-b", "go-a", "go-b")
}

// kills kills hosts of each implementation: first one of several, then the last one. The
// other hosts must acquire the leases.
func kills(s *scene) {
	s.begin("java-a", "go-a", "go-b")
	s.kill("java-a")
	s.settled(partitions, "go-a", "go-b")
	s.kill("go-a")
	s.settled(partitions, "go-b")
	s.start("java-b")
	s.settled(partitions, "go-b", "java-b")
	s.kill("go-b")
	s.settled(partitions, "java-b")
	s.start("go-c")
	s.kill("java-b") // the host may be stealing a lease at this moment
	s.settled(partitions, "go-c")
	s.judge("go-c")
}

// resume kills a host in the middle of a backlog. A host of the other implementation must
// resume from its positions. It must lose no change, and repeat at most one batch per
// lease.
func resume(s *scene) {
	for _, turn := range [][2]string{{"go-a", "java-a"}, {"java-b", "go-b"}} {
		first, second := turn[0], turn[1]
		s.start(first)
		s.positioned()
		s.settled(partitions, first)
		s.command("block", first) // no handler returns while the backlog is written
		s.ok(s.writer.write(s.Context(), 2400))
		middle := s.deliveries.reached(first, 200)
		s.command("unblock", first)
		select {
		case <-middle:
		case <-time.After(patience):
			s.Fatalf("%s delivered %d changes and no more", first, s.deliveries.count(first))
		}
		before := s.deliveries.again()
		s.kill(first)
		left := len(s.deliveries.missing())
		s.logf("%d changes are left", left)
		if left == 0 {
			s.Fatalf("%s had delivered everything before it was killed", first)
		}
		s.writer.start(s.Context())
		s.start(second)
		s.settled(partitions, second)
		s.judge(second)
		again := s.deliveries.again() - before
		s.logf("%d changes were delivered again after %s was killed and %s resumed", again, first, second)
		if again > partitions*batch {
			s.Fatalf("%d changes were delivered again, want at most a batch of each lease: %d", again, partitions*batch)
		}
	}
}

// topology splits partitions while hosts of each implementation own the leases. It also
// merges two partitions, if the dialect supports merges.
func topology(s *scene) {
	s.begin("java-a", "go-a")
	s.split("java", "java-a", "go-a")
	s.split("go-a", "java-a", "go-a")
	s.merge("java-a", "go-a")
	s.judge("java-a", "go-a")
}

// split splits a partition whose lease belongs to a host with the name prefix owner. It
// then waits until the leases are balanced over hosts.
func (s *scene) split(owner string, hosts ...string) {
	s.Helper()
	all := s.leases()
	live, err := s.Client.Partitions(s.Context(), s.monitored)
	s.ok(err)
	for _, p := range live {
		for _, l := range all {
			if (*l.LeaseToken == p.ID || *l.LeaseToken == p.Min+"-"+p.Max) && strings.HasPrefix(l.host(), owner) {
				_, err := s.Client.Split(s.Context(), s.monitored, p.ID)
				s.ok(err)
				s.logf("partition %s, of %s, is split", p.ID, l.host())
				s.settled(len(all)+1, hosts...)
				return
			}
		}
	}
	s.Fatalf("%s owns no partition's lease", owner)
}

// merge merges two partitions, in the second dialect. Both leases must remain, and each
// must read its part of the new partition.
func (s *scene) merge(hosts ...string) {
	s.Helper()
	if s.mode == handleChanges {
		return
	}
	all := s.leases()
	live, err := s.Client.Partitions(s.Context(), s.monitored)
	s.ok(err)
	made, err := s.Client.Merge(s.Context(), s.monitored, live[0].ID)
	s.ok(err)
	s.logf("partitions %s and %s are merged into %s", live[0].ID, live[1].ID, made[0].ID)
	time.Sleep(3 * time.Second) // the hosts notice the merge, release the leases, and acquire them again
	s.settled(len(all), hosts...)
	s.delivers(hosts...)
}

// stops stops hosts in both orders: ours before Java's, and Java's before ours. New hosts
// start after that, and must acquire the leases.
func stops(s *scene) {
	s.begin("java-a", "go-a")
	s.stop("go-a")
	s.settled(partitions, "java-a")
	s.start("go-b")
	s.settled(partitions, "java-a", "go-b")
	s.stop("java-a")
	s.settled(partitions, "go-b")
	s.start("java-b")
	s.settled(partitions, "java-b", "go-b")
	s.judge("go-b", "java-b")
}

// rolling replaces Java hosts by our hosts, one by one, and then our hosts by Java hosts.
func rolling(s *scene) {
	s.begin("java-a", "java-b")
	now := []string{"java-a", "java-b"}
	for _, next := range []string{"go-a", "go-b", "java-c", "java-d"} {
		s.stop(now[0])
		now = []string{now[1], next}
		s.start(next)
		s.settled(partitions, now...)
		s.delivers(now...)
	}
	s.judge(now...)
}

// busy lets a host steal a lease from a host whose handler does not return. If our host
// steals a Java host's lease, it waits, and then reads from the lease's position. A Java
// host uses a stolen lease at once.
func busy(s *scene) {
	for _, turn := range [][2]string{{"java-a", "go-a"}, {"go-b", "java-b"}} {
		owner, thief := turn[0], turn[1]
		s.begin(owner)
		s.command("block", owner)
		s.start(thief)
		s.settled(partitions, owner, thief)
		s.delivers(thief) // the owner's handlers return only after the thief has used their leases
		s.command("unblock", owner)
		s.judge(owner, thief)
	}
}

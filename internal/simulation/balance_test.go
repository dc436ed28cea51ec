package simulation

import (
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
)

// intervals returns the longest time that balancing may take: three and a half acquire
// intervals. The half interval covers jitter of a tenth per interval.
func (t times) intervals() time.Duration { return 3*t.acquire + t.acquire/2 }

// wantBalance checks that the leases are balanced and that none moves for a number of
// acquire intervals (cycles). Over HTTP it waits for a tenth of the cycles, because there
// each cycle takes longer to simulate.
func (s *scene) wantBalance(cycles int) {
	s.t.Helper()
	if _, far := s.engine.(*cosmosEngine); far {
		cycles = (cycles + 9) / 10
	}
	since := time.Now()
	s.rests(restCovered, time.Now())
	s.rests(restBalanced, time.Now())
	s.sleep(time.Duration(cycles) * s.times.acquire)
	s.rests(restStable, since)
	s.rests(restBalanced, time.Now())
}

// Hosts join, leave and crash. Each time, within three and a half acquire intervals,
// every host owns its share of the 64 leases, rounded down or up. Then no lease moves for
// 100 intervals, and planned moves redeliver no change.
func TestSixtyFourLeasesOverEightHostsComeToRest(t *testing.T) {
	play(t, func(s *scene) {
		var hosts []*host
		for range 3 {
			hosts = append(hosts, s.join("host"))
			s.sleep(time.Second)
		}
		s.sleep(s.times.intervals())
		s.wantBalance(2)
		for range 5 {
			s.add(40)
			hosts = append(hosts, s.join("host"))
			s.sleep(3 * time.Second)
		}
		s.sleep(s.times.intervals())
		s.add(100)
		s.wantBalance(100)
		hosts[0].leave()
		hosts[4].leave()
		s.add(100)
		s.sleep(s.times.intervals())
		s.wantBalance(100)
		if n := s.redelivered(); n > 0 {
			s.t.Errorf("planned moves redelivered %d changes", n)
		}
		hosts[1].crash()
		s.sleep(s.times.renew + s.times.expiration + time.Second)
		s.sleep(s.times.intervals())
		s.wantBalance(100)
	}, partitions(64))
}

// If there are more hosts than leases, the hosts without a lease send no hand-over
// requests. They acquire the leases of hosts that crash.
func TestSurplusHostsStandByAndTakeOver(t *testing.T) {
	play(t, func(s *scene) {
		var hosts []*host
		for range 5 {
			hosts = append(hosts, s.join("host"))
			s.sleep(2 * time.Second)
		}
		s.sleep(s.times.intervals())
		s.wantBalance(20)
		owning := 0
		for _, h := range hosts {
			if s.owned(h) > 1 {
				s.t.Errorf("%s owns %d of 3 leases on 5 hosts", h.id, s.owned(h))
			}
			if s.owned(h) > 0 {
				owning++
				h.crash()
			}
		}
		if owning != 3 {
			s.t.Fatalf("%d hosts own 3 leases", owning)
		}
		s.add(30)
		s.sleep(s.times.renew + s.times.expiration + time.Second + s.times.intervals())
		s.wantBalance(20)
		if n := s.missing(); n > 0 {
			s.t.Errorf("%d changes missing", n)
		}
	}, partitions(3))
}

// A host that owns MaxLeases leases acquires no more, and other hosts acquire the rest.
func TestMaxLeasesBoundAHostsShare(t *testing.T) {
	play(t, func(s *scene) {
		adjust := s.adjust
		s.setAdjust(func(h *host, cfg *changefeed.Config) {
			adjust(h, cfg)
			if h.instance == "small" {
				cfg.MaxLeases = 1
			}
		})
		small, one, two := s.join("small"), s.join("one"), s.join("two")
		s.sleep(2 * s.times.intervals())
		since := time.Now()
		a, b, c := s.owned(small), s.owned(one), s.owned(two)
		if a != 1 || b+c != 9 || b < 4 || c < 4 {
			s.t.Errorf("the hosts own %d, %d and %d of 10 leases; want 1 on the first and an equal share on the others", a, b, c)
		}
		s.sleep(20 * s.times.acquire)
		s.rests(restStable, since)
		one.leave()
		two.leave()
		s.sleep(s.times.intervals())
		if n := s.owned(small); n != 1 {
			s.t.Errorf("the host owns %d leases when it is alone; want its maximum", n)
		}
		s.join("three")
		s.sleep(s.times.intervals())
	}, partitions(10))
}

// After the store's clock jumps forward, a host's own leases look expired to it. It still
// uses them, so they must count for its maximum.
func TestMaxLeasesHoldsAfterAForwardJumpOfTheStoresClock(t *testing.T) {
	play(t, func(s *scene) {
		small := s.joinPrepared("small", func(h *host) { h.settings.maxLeases = 2 })
		s.sleep(s.times.intervals())
		for range 20 {
			s.jumpStoreClock(5 * time.Minute)
			s.sleep(s.times.acquire + s.times.acquire/7)
			if n := s.owned(small); n != 2 {
				s.t.Fatalf("the host owns %d of 5 leases; want its maximum", n)
			}
		}
		s.join("large")
		s.sleep(s.times.intervals())
	}, partitions(5), jumpingClock())
}

// If another host requests a lease, the owner hands it over only after the handler has
// returned. Until then the owner keeps renewing and using the lease.
func TestHandOverWaitsForTheHandler(t *testing.T) {
	play(t, func(s *scene) {
		s.setHandle(func(o *simObserver, _ *changefeed.Batch, _ int) handling {
			if o.host.instance == "first" && !s.isCalm() {
				return handling{takes: 10 * time.Minute}
			}
			return handling{takes: time.Millisecond}
		})
		first := s.join("first")
		s.initialised()
		s.add(40)
		s.sleep(30 * time.Second)
		second := s.join("second")
		s.sleep(5 * time.Minute)
		if s.owned(first) != 4 {
			s.t.Errorf("the first host owns %d of 4 leases while its handlers work; want all", s.owned(first))
		}
		s.sleep(8 * time.Minute)
		if s.owned(first) != 2 || s.owned(second) != 2 {
			s.t.Errorf("the hosts own %d and %d of 4 leases after the handlers; want 2 and 2", s.owned(first), s.owned(second))
		}
		if n := s.redelivered(); n > 0 {
			s.t.Errorf("%d changes delivered twice", n)
		}
	}, partitions(4))
}

package simulation

import (
	"errors"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
)

// These tests simulate outages of the source and of the lease store. However long an
// outage lasts, no change is lost. An outage of the source moves no lease.

func TestLeaseStoreDownForLongerThanTheExpirationLosesNothing(t *testing.T) {
	for _, length := range []time.Duration{20 * time.Second, 5 * time.Minute, 2 * time.Hour} {
		t.Run(length.String(), func(t *testing.T) {
			play(t, func(s *scene) {
				h := s.join("first")
				s.initialised()
				s.add(10)
				s.sleep(time.Minute)
				down := time.Now().Add(length)
				s.setFaults(func(c call, d *draw, f *fault) {
					if isLeaseOp(c.op) && time.Now().Before(down) {
						outage(d, f)
					}
				})
				since := time.Now()
				s.add(10)
				s.sleep(length)
				s.add(10)
				s.sleep(3 * time.Minute)
				if n := s.missing(); n > 0 {
					s.t.Errorf("%d changes missing", n)
				}
				if length < s.times.expiration/2 {
					s.rests(restStable, since)
				}
				s.wantError(h, func(err error) bool {
					var e *changefeed.LeaseStoreError
					return errors.As(err, &e)
				})
			})
		})
	}
}

func TestSourceDownForAnyTimeKeepsTheLease(t *testing.T) {
	for _, length := range []time.Duration{30 * time.Second, 2 * time.Hour} {
		t.Run(length.String(), func(t *testing.T) {
			play(t, func(s *scene) {
				h := s.join("first")
				s.initialised()
				s.add(10)
				s.sleep(time.Minute)
				down := time.Now().Add(length)
				s.setFaults(func(c call, d *draw, f *fault) {
					if !isLeaseOp(c.op) && time.Now().Before(down) {
						outage(d, f)
					}
				})
				since := time.Now()
				s.add(10)
				s.sleep(length)
				s.sleep(time.Minute)
				if n := s.missing() + s.redelivered(); n > 0 {
					s.t.Errorf("%d changes missing, %d redelivered", s.missing(), s.redelivered())
				}
				s.rests(restStable, since)
				s.wantError(h, func(err error) bool {
					var e *changefeed.SourceError
					return errors.As(err, &e)
				})
			})
		})
	}
}

// wantError checks that host h was notified of an error for which is returns true.
func (s *scene) wantError(h *host, is func(error) bool) {
	s.t.Helper()
	for _, n := range s.notesOf(h) {
		if n.Event == changefeed.Failed && is(n.Err) {
			return
		}
	}
	s.t.Errorf("%s was not notified of the error; its notifications: %v", h.id, s.notesOf(h))
}

package cosmos

import (
	"context"
	"errors"
	"math"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// spend sends requests of one kind, each with the same charge, until the time until.
// Several workers send them concurrently. It returns the sum of the charges.
func spend(b *Budget, kind requestKind, workers int, charge float64, until time.Time) (total float64) {
	var mu sync.Mutex // guards total
	var all sync.WaitGroup
	for range workers {
		all.Go(func() {
			for time.Now().Before(until) {
				t, err := b.admit(context.Background(), kind)
				if err != nil {
					panic(err) // the context has no deadline
				}
				<-time.After(10 * time.Millisecond) // simulates the duration of the request
				t.settle(charge)
				mu.Lock()
				total += charge
				mu.Unlock()
			}
		})
	}
	all.Wait()
	return total
}

func TestBudgetLimitsReadsAndLeaseRequestsTogether(t *testing.T) {
	for _, readCharge := range []float64{1, 20, 400} {
		synctest.Test(t, func(t *testing.T) {
			const rate, span = 100, 100.0
			b := NewBudget(rate)
			began := time.Now()
			until := began.Add(span * time.Second)
			var reads, leases float64
			var all sync.WaitGroup
			all.Go(func() { reads = spend(b, kindFeed, 8, readCharge, until) })
			all.Go(func() { leases = spend(b, kindLeaseWrite, 2, 10, until) })
			all.Wait()
			// The last request may still wait for the budget when the time is over.
			took := time.Since(began).Seconds()
			if total, most := reads+leases, rate*(took+1)+8*readCharge+20; total > most || total < 0.9*rate*span {
				t.Errorf("reads at %v RU: %v RU were spent in %v s; want at most %v and nearly as much", readCharge, total, took, most)
			}
			if leases < 0.8*rate*span {
				t.Errorf("reads at %v RU: leases got %v RU beside reads that need more than the rate; want nine tenths of %v", readCharge, leases, rate*span)
			}
			if u := b.Usage(); math.Abs(u.FeedRU-reads) > 1e-6 || math.Abs(u.LeaseRU-leases) > 1e-6 || u.FeedRequests != int64(reads/readCharge) {
				t.Errorf("the usage is %+v; want %v and %v RU", u, reads, leases)
			}
		})
	}
}

// A very expensive read overdraws the budget for minutes. The renewal of a lease must not
// wait for that, because a lease lasts one minute.
func TestRenewalDoesNotWaitForTheBudgetOfReads(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(20)
		dear, err := b.admit(t.Context(), kindFeed)
		if err != nil {
			t.Fatal(err)
		}
		dear.settle(5000)
		began := time.Now()
		for range 10 {
			renewal, err := b.admit(t.Context(), kindLeaseWrite)
			if err != nil {
				t.Fatal(err)
			}
			renewal.settle(10)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("10 renewals of 10 RU at 20 RU/s took %s beside an overdraft by reads; want as long as they cost", took)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = b.admit(ctx, kindFeed)
		var throttled *feed.ThrottledError
		if !errors.As(err, &throttled) || throttled.RetryAfter < 4*time.Minute {
			t.Errorf("a read that would wait for minutes: %v; want an error at once, with the wait", err)
		}
		if b.Usage().Refused != 1 {
			t.Errorf("the usage is %+v; want one refusal", b.Usage())
		}
	})
}

func TestBudgetForgetsRequestsThatWereNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(10)
		first, err := b.admit(t.Context(), kindFeed)
		if err != nil {
			t.Fatal(err)
		}
		first.settle(30) // the budget is overdrawn by 20 RU, which takes two seconds
		for range 100 {
			ctx, cancel := context.WithCancel(t.Context())
			go func() { <-time.After(time.Millisecond); cancel() }()
			if _, err := b.admit(ctx, kindFeed); !errors.Is(err, context.Canceled) {
				t.Fatalf("a cancelled wait: %v", err)
			}
		}
		began := time.Now()
		if _, err := b.admit(t.Context(), kindFeed); err != nil || time.Since(began) > 2*time.Second {
			t.Errorf("after 100 cancelled waits, %v, %s; want no more than the two seconds of the first", err, time.Since(began))
		}
	})
}

// A read that is refused is tried again after the wait that the error reports. If refusals
// counted, every attempt would lengthen that wait, and the reads would never resume.
func TestRefusedReadsDoNotDelayLaterOnes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(20)
		dear, err := b.admit(t.Context(), kindFeed)
		if err != nil {
			t.Fatal(err)
		}
		dear.settle(220) // overdrawn by 200: ten seconds
		began := time.Now()
		for range 100 {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			_, err := b.admit(ctx, kindFeed)
			cancel()
			var throttled *feed.ThrottledError
			if !errors.As(err, &throttled) || throttled.RetryAfter > 10*time.Second {
				t.Fatalf("a read that would wait beyond its deadline: %v; want an error that asks for at most 10 s", err)
			}
		}
		if _, err := b.admit(t.Context(), kindFeed); err != nil || time.Since(began) > 10*time.Second {
			t.Errorf("after 100 refusals, %v, %s; want the ten seconds of the first read", err, time.Since(began))
		}
	})
}

func TestInvalidBudgetsAreRefused(t *testing.T) {
	for _, rate := range []float64{0, -1, 0.5, math.NaN(), math.Inf(1)} {
		if NewBudget(rate).validate() == nil {
			t.Errorf("a budget of %v RU/s is accepted", rate)
		}
	}
	var none *Budget
	if err := errors.Join(NewBudget(1).validate(), none.validate()); err != nil {
		t.Error(err)
	}
	ticket, err := none.admit(t.Context(), kindFeed)
	if err != nil {
		t.Error(err)
	}
	ticket.settle(10)
}

// Letters must not delay a renewal, however large they are.
func TestLettersComeAfterLeasesInABudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := NewBudget(100)
		letter, err := b.admit(t.Context(), kindLetterWrite)
		if err != nil {
			t.Fatal(err)
		}
		letter.settle(5000)
		began := time.Now()
		renewal, err := b.admit(t.Context(), kindLeaseWrite)
		if err != nil || time.Since(began) > 0 {
			t.Errorf("behind a letter of 5000 RU, a renewal waits %s (%v)", time.Since(began), err)
		}
		renewal.settle(10)
		if u := b.Usage(); u.LetterRequests != 1 || u.LetterRU != 5000 || u.LeaseRequests != 1 || u.LeaseRU != 10 {
			t.Errorf("the usage is %+v", u)
		}
	})
}

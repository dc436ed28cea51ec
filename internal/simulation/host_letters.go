package simulation

import (
	"context"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/letters"
)

// hostLetters is the container for letters as a host reaches it, over its link.
type hostLetters struct {
	host  *host
	inner letters.Container
}

// Open implements [letters.Container].
func (c hostLetters) Open(ctx context.Context, k letters.Key) (letters.Store, error) {
	store, err := c.inner.Open(ctx, k)
	return hostLetterStore{store, c.host}, err
}

type hostLetterStore struct {
	letters.Store
	host *host
}

// Put implements [letters.Store]. It records when the letter arrives.
func (s hostLetterStore) Put(ctx context.Context, l letters.Letter) error {
	c := call{host: s.host, op: opLetter, key: l.Lease + " " + l.ItemID, write: true}
	_, err := send(ctx, c, func(ctx context.Context) (struct{}, error) {
		err := s.Store.Put(ctx, l)
		if err == nil {
			s.host.world.occurs(lettersOfHosts)
			s.host.world.ledger.add(&letter{s.host, l.Lease, l.Hash, changeName{l.ItemID, l.LSN, l.Change().Current == nil}})
		}
		return struct{}{}, err
	})
	return err
}

// failure returns how the host's processor treats changes that its handler cannot process.
func (h *host) failure() changefeed.Failure {
	if h.settings.attempts == 0 {
		return changefeed.Failure{}
	}
	return changefeed.Failure{
		Attempts: h.settings.attempts, Letters: hostLetters{h, h.world.letters}, Park: changefeed.ParkNone,
		Delay: 100 * time.Millisecond, MaxDelay: 5 * time.Second,
	}
}

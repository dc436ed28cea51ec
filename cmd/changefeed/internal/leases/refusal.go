package leases

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

// LiveError tells that a change was refused because hosts work on the leases.
type LiveError struct {
	// Items are the live leases.
	Items []Item
	// Now is the store's clock.
	Now time.Time
	// Verb is what was refused.
	Verb string
}

func (e *LiveError) Error() string {
	var texts []string
	for _, i := range e.Items {
		texts = append(texts, fmt.Sprintf("lease %s is owned by %s, who wrote it %s ago", i.Token, lease.Instance(i.Owner), max(0, e.Now.Sub(i.Lease.Modified)).Round(time.Second)))
	}
	return fmt.Sprintf("%s is refused: %s; stop the hosts and try again when their leases are free or expired, or say --force: %s", e.Verb, strings.Join(texts, "; "), ForceCosts)
}

// ForceCosts says what it costs to change a lease under its owner.
const ForceCosts = "the owner finds out with its next write, within a renew interval (13 s by default), and goes on delivering until then; " +
	"whoever takes the lease delivers the same changes again"

// refuseLive refuses to change live leases, unless it is forced.
func (s Survey) refuseLive(verb string, items []Item, force bool) error {
	live := s.live(items)
	if len(live) == 0 || force {
		return nil
	}
	return &LiveError{Items: live, Now: s.Now, Verb: verb}
}

// Select finds leases by their tokens; all of them where all is set. Error: one isn't there; there are
// neither tokens nor all.
func (s Survey) Select(tokens []string, all bool) ([]Item, error) {
	switch {
	case all && len(tokens) > 0:
		return nil, errors.New("--all and lease tokens exclude each other")
	case all:
		return s.Items, nil
	case len(tokens) == 0:
		return nil, errors.New("which leases? Give their tokens, as `changefeed leases ls` prints them, or --all")
	}
	var found []Item
	for _, token := range tokens {
		i, ok := s.find(token)
		if !ok {
			return nil, fmt.Errorf("there is no lease %s; there are %s", token, s.tokens())
		}
		found = append(found, i)
	}
	return found, nil
}

// tokens lists the leases for messages.
func (s Survey) tokens() string {
	var all []string
	for _, i := range s.Items {
		all = append(all, i.Token)
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// MayRepair refuses a plan that changes leases while hosts work on any of them: they close holes
// and finish splits by themselves, and a repair in between would be in their way.
func (s Survey) MayRepair(plan []Step, force bool) error {
	for _, step := range plan {
		if step.Op != Unlock && step.Op != Mark {
			return s.refuseLive("the repair", s.Items, force)
		}
	}
	return nil
}

package leases

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/internal/protocol"
)

// LiveError reports that a change was not made, because live hosts own some of the
// leases.
type LiveError struct {
	// Items are the live leases.
	Items []Item
	// Now is the store's clock.
	Now time.Time
	// Verb names the change that was not made.
	Verb string
}

func (e *LiveError) Error() string {
	var texts []string
	for _, i := range e.Items {
		texts = append(texts, fmt.Sprintf("lease %s is owned by %s, which wrote it %s ago", i.Token, protocol.Instance(i.Owner), max(0, e.Now.Sub(i.Lease.Modified)).Round(time.Second)))
	}
	return fmt.Sprintf("cannot %s: %s; stop the hosts and retry when their leases are free or expired, or use --force: %s", e.Verb, strings.Join(texts, "; "), ForceCosts)
}

// ForceCosts describes the cost of changing a lease that a live host owns.
const ForceCosts = "the owner notices at its next write, within a renew interval (13 s by default), and delivers changes until then; " +
	"the next owner delivers the same changes again"

// refuseLive returns a *[LiveError] if a lease in items is live. verb names the change for
// its text.
func (s Survey) refuseLive(verb string, items []Item) error {
	live := s.live(items)
	if len(live) == 0 {
		return nil
	}
	return &LiveError{Items: live, Now: s.Now, Verb: verb}
}

// Select returns the leases with the given tokens, or all leases. It returns an error if
// a lease does not exist. It also does if the caller gives both tokens and all, or
// neither.
func (s Survey) Select(tokens []string, all bool) ([]Item, error) {
	switch {
	case all && len(tokens) > 0:
		return nil, errors.New("--all and lease tokens exclude each other")
	case all:
		return s.Items, nil
	case len(tokens) == 0:
		return nil, errors.New("no lease is named; use the tokens that `changefeed leases ls` prints, or --all")
	}
	var found []Item
	for _, token := range tokens {
		i, ok := s.named(token)
		if !ok {
			return nil, fmt.Errorf("lease %s does not exist; the existing ones are %s", token, s.Tokens())
		}
		found = append(found, i)
	}
	return found, nil
}

// Tokens returns the tokens of all leases in one text, for messages.
func (s Survey) Tokens() string {
	var all []string
	for _, i := range s.Items {
		all = append(all, i.Token)
	}
	return cmp.Or(strings.Join(all, ", "), "none")
}

// Refuse returns a *[LiveError] if a plan changes a lease that a live host owns. verb names
// the change for its text.
func (s Survey) Refuse(verb string, plan []Step) error {
	return s.refuseLive(verb, slices.DeleteFunc(slices.Clone(s.Items), func(i Item) bool {
		return !slices.ContainsFunc(plan, func(step Step) bool {
			return step.Before != nil && step.Before.ID == i.Document.ID && step.Before.Key == i.Key
		})
	}))
}

// RefuseRepair returns a *[LiveError] if a plan changes leases while live hosts own any.
// Hosts fill holes and finish splits by themselves, and a repair would interfere.
func (s Survey) RefuseRepair(plan []Step) error {
	for _, step := range plan {
		if step.Op != Unlock && step.Op != Mark {
			return s.refuseLive("repair", s.Items)
		}
	}
	return nil
}

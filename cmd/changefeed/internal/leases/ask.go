package leases

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// Ask asks the owners of leases to read their letters and to hand out those that wait for it. An
// owner sees that at its next write of the lease, and a lease without an owner keeps the request
// for the next one.
type Ask struct {
	// Hashes are those of the letters, which are the keys that the leases must hold.
	Hashes []string
	// Session is the session token of the letters as of the last change to them.
	Session string
	// Out receives the progress.
	Out io.Writer
}

// Holding returns the leases that hold one of the given keys, in the order of their ranges. While a
// lease is being replaced after a split, the same key is held by its children, too. Holding returns
// an error if nothing holds a key.
func (s Survey) Holding(hashes []string) ([]Item, error) {
	holds := func(i Item) bool { return slices.ContainsFunc(hashes, i.Range.OrFull().Holds) }
	for _, hash := range hashes {
		if !slices.ContainsFunc(s.Items, func(i Item) bool { return i.Range.OrFull().Holds(hash) }) {
			return nil, fmt.Errorf("no lease of the processor %q holds the key with the hash %q; the existing ones are %s: `changefeed leases check` finds what is missing", s.Processor, hash, s.Tokens())
		}
	}
	return slices.DeleteFunc(slices.Clone(s.Items), func(i Item) bool { return !holds(i) }), nil
}

// Keeper names who hands out the letters of a lease.
func Keeper(i Item) string {
	if i.Owner == "" {
		return fmt.Sprintf("the next owner of lease %s", i.Token)
	}
	return fmt.Sprintf("%s, the owner of lease %s,", protocol.Instance(i.Owner), i.Token)
}

// Run asks the owners of the leases that hold the keys. If one of the leases is replaced meanwhile,
// it asks those that replace it.
func (a Ask) Run(ctx context.Context, c *Container, choice Choice) error {
	done := map[string]bool{}
	for {
		s, err := c.Survey(ctx, choice)
		if err != nil {
			return err
		}
		items, err := s.Holding(a.Hashes)
		if err != nil {
			return err
		}
		names, replaced := view.NamesIn(s.Tokens()), false
		for _, i := range items {
			address := i.Document.ID + " " + i.Key
			if done[address] {
				continue
			}
			done[address] = true
			text, err := a.ask(ctx, c, s, i)
			if errors.Is(err, feed.ErrNotFound) {
				replaced = true
				continue
			}
			if err != nil {
				return fmt.Errorf("ask the owner of lease %s: %w", i.Token, err)
			}
			if _, err := fmt.Fprintln(a.Out, view.OneLine(names.In(text))); err != nil {
				return err
			}
		}
		if !replaced {
			return nil
		}
	}
}

// ask writes the request into a lease, and returns what it did.
func (a Ask) ask(ctx context.Context, c *Container, s Survey, i Item) (string, error) {
	before, err := protocol.AskOwner(ctx, func(ctx context.Context, l lease.Lease) (lease.Lease, error) {
		return c.update(ctx, &s, &i, l)
	}, i.Lease, s.Now, a.Session)
	if err != nil {
		return "", err
	}
	who, verb := Keeper(i), "is asked to hand them out, and does so after its next write of the lease"
	if before {
		verb = "was asked before, and has not answered yet"
	}
	switch {
	case i.Owner != "" && !protocol.Ours(i.Owner):
		return fmt.Sprintf("%s %s; it is a host of .NET or Java, which hands out no letters: start a host of this project", who, verb), nil
	case stoppedOf(i) != nil:
		return fmt.Sprintf("%s %s; its handler has stopped the lease: run `changefeed leases resume %s` first", who, verb, i.Token), nil
	}
	return fmt.Sprintf("%s %s", who, verb), nil
}

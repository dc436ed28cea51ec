package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/leases"
	shown "github.com/changefeed-go/changefeed/cmd/changefeed/internal/letters"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/letters"
)

// lettersPlan is what a command is to do with letters.
type lettersPlan interface {
	// Concerns returns the letters, whose owners are asked afterwards.
	Concerns() []letters.Letter
	// Steps describes the plan, one line for each letter.
	Steps() []string
	// Question asks whether the plan is to be carried out.
	Question() string
	// Run carries the plan out.
	Run(ctx context.Context, s letters.Store, out io.Writer) error
}

func (o *lettersOptions) redrive() *cobra.Command {
	own := ownersOptions{Flags: o.Flags}
	skip := false
	cmd := &cobra.Command{
		Use:   "redrive LETTER...|--all",
		Short: "Hand letters to the handler again",
		Long: `Redrive has letters handed to their processor's handler again, which deletes each one that it handles.
Mend first what made it fail. With --all, the command redrives the letters that the filters choose, or
every letter if there is no filter.

The letters of a key are handed out in the order of its changes. So the command redrives the earlier
letters of a chosen one's key, too, and the parked ones behind it follow. Once no letter of a parked key
is left, its newer changes follow. If the handler fails with a letter as often as Failure.Attempts says,
the letter is dead again, and those behind it wait.

The host that owns the key's lease hands the letters out. The command sets the dead letters to the
state redriving, and then asks the owners by one write to each lease. An owner sees that when it next
writes the lease itself, within a renew interval (13 s by default), and a lease without an owner keeps the request
for the next one. The command does not wait. "changefeed letters ls" shows what is left. If an owner
has not answered an earlier request yet, its lease is not written again.

With --skip-superseded, a letter is deleted instead of redriven if there is a later letter of its item.
Later changes of the item that are no letters are not looked at.

Redrive prints its plan first. On a terminal it asks before it carries the plan out. Elsewhere it needs
--yes. --dry-run only prints the plan.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := required("--leases", own.leases); err != nil {
				return err
			}
			return o.change(cmd, args, &own, func(all []letters.Letter, chosen func(letters.Letter) bool) lettersPlan {
				return shown.NewRedrive(all, chosen, skip)
			})
		},
	}
	o.changes(cmd, &own)
	cmd.Flags().BoolVar(&skip, "skip-superseded", false, "delete a letter instead, if there is a later letter of its item")
	return cmd
}

func (o *lettersOptions) drop() *cobra.Command {
	own := ownersOptions{Flags: o.Flags}
	cmd := &cobra.Command{
		Use:   "drop LETTER...|--all",
		Short: "Delete letters: their changes are never processed",
		Long: `Drop deletes letters, so that their changes are never processed. "export" saves them first. With --all,
it deletes the letters that the filters choose, or every letter if there is no filter.

The letters of a key that stay keep their order. Once the first letters of a parked key are dropped, up
to and including its dead ones, the parked ones behind them are handed to the handler. Once all are
dropped, the key's newer changes are handed out again. The hosts that own the keys' leases do that. So
the command asks them afterwards, as "redrive" does. With --leases "" it asks nobody. That is for
letters of a processor that is gone.

Drop prints its plan first. On a terminal it asks before it carries the plan out. Elsewhere it needs
--yes. --dry-run only prints the plan. A letter that somebody has changed since is not deleted.`,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			own.dropping = true
			return o.change(cmd, args, &own, func(all []letters.Letter, chosen func(letters.Letter) bool) lettersPlan {
				return shown.NewDrop(all, chosen)
			})
		},
	}
	o.changes(cmd, &own)
	return cmd
}

// changes adds the flags of a command that changes letters.
func (o *lettersOptions) changes(cmd *cobra.Command, own *ownersOptions) {
	cmd.Flags().BoolVar(&o.all, "all", false, cmd.Name()+" all letters that the filters choose")
	cmd.Flags().BoolVar(&o.dryRun, "dry-run", false, "print the plan and change nothing")
	addYes(cmd, &o.yes)
	o.filters(cmd.Flags())
	own.add(cmd.Flags())
}

// change makes a plan for the letters that the user chooses, and carries it out.
func (o *lettersOptions) change(
	cmd *cobra.Command, args []string, own *ownersOptions, plan func(all []letters.Letter, chosen func(letters.Letter) bool) lettersPlan,
) error {
	filtered := slices.ContainsFunc([]string{"processor", "container", "key", "error", "state", "older", "newer"}, cmd.Flags().Changed)
	switch {
	case o.all == (len(args) > 0):
		return &usageError{fmt.Errorf("name the letters to %s, or use --all", cmd.Name())}
	case filtered && !o.all:
		return &usageError{errors.New("filters choose among all letters; use them with --all, or name the letters")}
	}
	o.Flags = own.Flags // with those of the leases
	return o.with(cmd, func(ctx context.Context, s letters.Store) error {
		all, err := shown.Filter{}.Read(ctx, s)
		if err != nil {
			return err
		}
		for _, id := range args {
			if !slices.ContainsFunc(all, func(l letters.Letter) bool { return l.ID == id }) {
				return fmt.Errorf("there is no letter %s; `changefeed letters ls` lists the letters", view.OneLine(id))
			}
		}
		return o.carryOut(ctx, cmd, s, own, plan(all, func(l letters.Letter) bool {
			return o.all && o.filter.Holds(l) || slices.Contains(args, l.ID)
		}))
	})
}

// carryOut prints the plan, asks the user, changes the letters, and then asks their owners to read
// them, also if only some could be changed.
func (o *lettersOptions) carryOut(ctx context.Context, cmd *cobra.Command, s letters.Store, own *ownersOptions, p lettersPlan) error {
	all, err := own.find(ctx, o.connection, p.Concerns())
	if err != nil {
		return err
	}
	lines := p.Steps()
	for _, owners := range all {
		lines = append(lines, owners.steps()...)
	}
	ch := change{question: p.Question(), dryRun: o.dryRun, yes: o.yes}
	for _, line := range lines {
		ch.plan = append(ch.plan, leases.Step{Text: line})
	}
	ch.apply = func() error {
		out := cmd.OutOrStdout()
		err := p.Run(ctx, s, out)
		for _, owners := range all {
			ask := leases.Ask{Hashes: owners.hashes, Session: s.Session(""), Out: out}
			err = cmp.Or(err, ask.Run(ctx, owners.container, owners.choice))
		}
		return err
	}
	return ch.carryOut(ctx, cmd)
}

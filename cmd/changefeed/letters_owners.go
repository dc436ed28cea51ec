package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/pflag"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/leases"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/letters"
)

// ownersOptions are the flags by which a command finds the owners of letters: the hosts that own
// the leases of their keys.
type ownersOptions struct {
	connect.Flags
	leaseDatabase, leases, dialect string
	// dropping reports that the command can do without the owners.
	dropping bool
}

func (o *ownersOptions) add(flags *pflag.FlagSet) {
	o.AddLeases(flags)
	flags.StringVar(&o.leaseDatabase, "lease-database", "", "`name` of the lease container's database (default: the monitored container's)")
	flags.StringVar(&o.leases, "leases", "leases", "`name` of the lease container")
	flags.StringVar(&o.dialect, "dialect", "", "`dialect` of the leases: dotnet, java-handle-changes or java-latest-version (default: the dialect of the existing leases)")
}

// owners are the owners of one processor's letters.
type owners struct {
	container *leases.Container
	choice    leases.Choice
	// hashes are those of the letters' keys, and items the leases that hold them.
	hashes []string
	items  []leases.Item
	names  view.ShortNames
}

// find returns the owners of letters. It returns an error if a letter has none.
func (o *ownersOptions) find(ctx context.Context, c *connect.Connection, all []letters.Letter) (found []owners, err error) {
	if o.leases == "" {
		return nil, nil
	}
	var choice leases.Choice
	if o.dialect != "" {
		d, err := lease.ParseDialect(o.dialect)
		if err != nil {
			return nil, &usageError{fmt.Errorf("--dialect: %w", err)}
		}
		choice.Dialect = &d
	}
	type processor struct {
		name   string
		source feed.ContainerID
	}
	hashes := map[processor][]string{}
	var first []letters.Letter // one of each processor
	for _, l := range all {
		p := processor{l.Processor, l.Source}
		if hashes[p] == nil {
			first = append(first, l)
		}
		if !slices.Contains(hashes[p], l.Hash) {
			hashes[p] = append(hashes[p], l.Hash)
		}
	}
	for _, l := range first {
		choice.Processor = &l.Processor
		owners := owners{choice: choice, hashes: hashes[processor{l.Processor, l.Source}]}
		if err := o.open(ctx, c, l, &owners); err != nil {
			if o.dropping {
				return nil, fmt.Errorf("cannot ask the owner of letter %s: %w; if its processor is gone, use --leases \"\", which asks nobody", l.ID, err)
			}
			return nil, fmt.Errorf("cannot ask the owner of letter %s: %w", l.ID, err)
		}
		found = append(found, owners)
	}
	return found, nil
}

// open opens the lease container of letter l's processor, and finds the leases.
func (o *ownersOptions) open(ctx context.Context, c *connect.Connection, l letters.Letter, to *owners) (err error) {
	to.container, err = leases.Open(ctx, c, leases.Names{Database: l.Database, Container: l.Container}, leases.Names{Database: cmp.Or(o.leaseDatabase, l.Database), Container: o.leases})
	if err != nil {
		return err
	}
	if rid := to.container.Identity.ContainerRID; rid != l.Source.RID {
		return fmt.Errorf("the letter is of a container %s/%s with the rid %s, and that of %s has the rid %s: it was recreated, or is in another account, which --endpoint must name, and --letters-endpoint that of the letters", l.Database, l.Container, l.Source.RID, c.Monitored.Settings, rid)
	}
	s, err := to.container.Survey(ctx, to.choice)
	if err != nil {
		return err
	}
	to.names = view.NamesIn(s.Tokens())
	to.items, err = s.Holding(to.hashes)
	return err
}

// steps describes who is to be asked, one line for each lease.
func (o owners) steps() (lines []string) {
	for _, i := range o.items {
		lines = append(lines, view.OneLine(o.names.In("ask "+leases.Keeper(i)+" to hand out the letters that wait")))
	}
	return lines
}

package leases

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/internal/protocol"
	"github.com/changefeed-go/changefeed/lease"
)

// Choice selects the leases of one processor.
type Choice struct {
	// Processor is the processor's name. If nil, the lease container must have only one
	// processor.
	Processor *string
	// Dialect is the dialect of the leases. If nil, it is the dialect of the existing
	// leases.
	Dialect *lease.Dialect
	// Made describes the leases that a conversion creates, so that they are not mistaken
	// for the leases to convert. It is nil outside a conversion.
	Made *Made
	// Terms are the intervals of the hosts, which determine whether a lease is live.
	Terms protocol.Terms
}

// Made describes the leases that a conversion creates. If the conversion was interrupted,
// some of them may be in the container beside the leases to convert.
type Made struct {
	Dialect lease.Dialect
	// Processor is the name of the processor for which they are created. If nil, it is
	// the name of the source's processor.
	Processor *string
}

// by reports whether a conversion of another group in all may have created the leases of
// g.
func (m *Made) by(g group, all []group) bool {
	return m != nil && g.dialect == m.Dialect && slices.ContainsFunc(all, func(of group) bool {
		name := of.processor
		if m.Processor != nil {
			name = *m.Processor
		}
		return of.dialect != m.Dialect && g.processor == name
	})
}

// ChoiceError reports that a [Choice] matches no leases, or the leases of several
// processors.
type ChoiceError struct {
	// None reports whether the Choice matches no leases.
	None   bool
	reason string
}

func (e *ChoiceError) Error() string { return e.reason }

// Survey reads the leases of one processor. It returns a *[ChoiceError] if the choice
// does not match exactly one.
func (c *Container) Survey(ctx context.Context, choice Choice) (Survey, error) {
	groups, now, err := c.list(ctx)
	if err != nil {
		return Survey{}, err
	}
	g, err := c.choose(groups, choice)
	if err != nil {
		return Survey{}, err
	}
	if choice.Dialect != nil {
		g.dialect = *choice.Dialect
	}
	s, err := c.survey(ctx, g, now, choice.Terms)
	s.OtherHosts = s.Codec.OtherHosts(ids(groups))
	return s, err
}

// ids returns the ids of the leases in all groups.
func ids(groups []group) []string {
	var all []string
	for _, g := range groups {
		for _, d := range g.leases {
			all = append(all, d.ID)
		}
	}
	return all
}

// SurveyOf reads the leases of a processor in a dialect. The survey may contain no
// leases.
func (c *Container) SurveyOf(ctx context.Context, processor string, d lease.Dialect, terms protocol.Terms) (Survey, error) {
	groups, now, err := c.list(ctx)
	if err != nil {
		return Survey{}, err
	}
	found := group{name: name{processor: processor, host: c.Identity.AccountHost}}
	codec, err := c.codec(processor, found.host, d)
	if err != nil {
		return Survey{}, err
	}
	for _, g := range groups {
		if g.prefix+leaseSuffix == codec.LeasePrefix() {
			found = g
		}
	}
	found.dialect = d
	s, err := c.survey(ctx, found, now, terms)
	s.OtherHosts = s.Codec.OtherHosts(ids(groups))
	return s, err
}

// survey returns a survey of the documents in a group.
func (c *Container) survey(ctx context.Context, g group, now time.Time, terms protocol.Terms) (Survey, error) {
	s := Survey{Processor: g.processor, Host: g.host, Container: c.Identity.ContainerRID, Marker: g.marker, Lock: g.lock, Now: now, Terms: terms}
	var err error
	if s.Codec, err = c.codec(g.processor, g.host, g.dialect); err != nil {
		return Survey{}, err
	}
	for _, d := range g.leases {
		var l lease.Listing
		switch s.Codec.List(&l, d.ID, d.Modified, d.Body); {
		case len(l.Leases) > 0:
			s.Items = append(s.Items, Item{Document: d, Lease: l.Leases[0]})
		case len(l.Foreign) > 0:
			s.Foreign = append(s.Foreign, Foreign{Document: d, Dialect: l.Foreign[0].Dialect})
		default:
			s.Unreadable = append(s.Unreadable, l.Unreadable...)
			s.Broken = append(s.Broken, d)
		}
	}
	if s.Partitions, err = c.Source.Partitions(ctx); err != nil {
		return Survey{}, fmt.Errorf("read the partitions of %s/%s: %w", c.Identity.Database, c.Identity.Container, err)
	}
	s.withRanges()
	sortItems(s.Items)
	return s, nil
}

// codec returns the codec of a processor's documents. host is the account's host as the
// documents' ids spell it.
func (c *Container) codec(processor, host string, d lease.Dialect) (lease.Codec, error) {
	identity := c.Identity
	identity.AccountHost = host
	return lease.NewCodec(d, lease.Key{Processor: processor, Identity: identity}, c.Keyed)
}

// choose returns the group that matches choice.
func (c *Container) choose(groups []group, choice Choice) (group, error) {
	fit := slices.DeleteFunc(slices.Clone(groups), func(g group) bool {
		return !g.known() || choice.Processor != nil && g.processor != *choice.Processor ||
			choice.Dialect != nil && (*choice.Dialect == lease.JavaHandleChanges) != g.byNames
	})
	// A Java host of the second dialect also creates the marker of the first one, without
	// leases. Such a group is ignored if another group has leases.
	if len(fit) > 1 {
		if full := slices.DeleteFunc(slices.Clone(fit), func(g group) bool { return len(g.leases) == 0 }); len(full) > 0 {
			fit = full
		}
	}
	all := slices.Clone(fit)
	fit = slices.DeleteFunc(fit, func(g group) bool { return choice.Made.by(g, all) })
	switch len(fit) {
	case 1:
		return fit[0], nil
	case 0:
		return group{}, &ChoiceError{None: true, reason: fmt.Sprintf("there are no leases of %s/%s in %s%s%s", c.Identity.Database, c.Identity.Container, c.Name, named(choice), others(groups))}
	}
	return group{}, &ChoiceError{reason: fmt.Sprintf("several processors have leases of %s/%s in %s; choose one%s", c.Identity.Database, c.Identity.Container, c.Name, others(fit))}
}

// named returns the part of an error text that names the processor and the dialect of a
// choice.
func named(choice Choice) string {
	text := ""
	if choice.Processor != nil {
		text += fmt.Sprintf(" of the processor %q", *choice.Processor)
	}
	if choice.Dialect != nil {
		text += " in " + choice.Dialect.String()
	}
	return text
}

// others returns the part of an error text that lists the existing leases.
func others(groups []group) string {
	if len(groups) == 0 {
		return ""
	}
	var texts []string
	for _, g := range groups {
		if g.known() {
			texts = append(texts, fmt.Sprintf("--processor %q --dialect %s (%s)", g.processor, g.dialect.Name(), view.Plural(len(g.leases), "lease", "leases")))
		} else {
			texts = append(texts, fmt.Sprintf("%s, whose account host differs from the endpoint's: use the endpoint that its hosts use", g.prefix))
		}
	}
	return "; the existing ones are " + strings.Join(texts, "; ")
}

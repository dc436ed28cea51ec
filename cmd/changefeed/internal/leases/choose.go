package leases

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

// Choice says whose leases are meant.
type Choice struct {
	// Processor is the processor's name; nil: the only one there is.
	Processor *string
	// Dialect is that of the store; nil: that of the leases that are there.
	Dialect *lease.Dialect
	// Made are the leases that a conversion makes, which aren't those to convert; nil: it is about no conversion.
	Made *Made
	// Terms are the hosts'.
	Terms lease.Terms
}

// Made says which leases a conversion makes: an attempt that was interrupted has left some beside those that it converts.
type Made struct {
	Dialect lease.Dialect
	// Processor is their processor's name; nil: that of those that are converted.
	Processor *string
}

// by reports whether g may be made of another one of all.
func (m *Made) by(g Group, all []Group) bool {
	return m != nil && g.Dialect() == m.Dialect && slices.ContainsFunc(all, func(of Group) bool {
		name := of.Processor
		if m.Processor != nil {
			name = *m.Processor
		}
		return of.Dialect() != m.Dialect && g.Processor == name
	})
}

// ChoiceError tells that it isn't clear whose leases are meant, or that there are none.
type ChoiceError struct{ reason string }

func (e *ChoiceError) Error() string { return e.reason }

// Survey looks at the leases of one processor. Errors: *[ChoiceError].
func (c *Container) Survey(ctx context.Context, choice Choice) (Survey, error) {
	all, now, err := c.Documents(ctx)
	if err != nil {
		return Survey{}, err
	}
	g, err := c.choose(Groups(all, c.Identity), choice)
	if err != nil {
		return Survey{}, err
	}
	dialect := g.Dialect()
	if choice.Dialect != nil {
		dialect = *choice.Dialect
	}
	return c.survey(ctx, g, dialect, now, choice.Terms)
}

// SurveyOf looks at the leases of a processor in a dialect, of which there may be none.
func (c *Container) SurveyOf(ctx context.Context, processor string, d lease.Dialect, terms lease.Terms) (Survey, error) {
	all, now, err := c.Documents(ctx)
	if err != nil {
		return Survey{}, err
	}
	codec, err := c.codec(processor, "", d)
	if err != nil {
		return Survey{}, err
	}
	found := Group{Processor: processor, Host: c.Identity.AccountHost}
	for _, g := range Groups(all, c.Identity) {
		if g.Prefix+leaseSuffix == codec.LeasePrefix() {
			found = g
		}
	}
	return c.survey(ctx, found, d, now, terms)
}

// survey decodes the documents of a group.
func (c *Container) survey(ctx context.Context, g Group, dialect lease.Dialect, now time.Time, terms lease.Terms) (Survey, error) {
	s := Survey{Processor: g.Processor, Host: g.Host, Container: c.Identity.ContainerRID, Marker: g.Marker, Lock: g.Lock, Now: now, Terms: terms}
	var err error
	if s.Codec, err = c.codec(g.Processor, g.Host, dialect); err != nil {
		return Survey{}, err
	}
	for _, d := range g.Leases {
		if of, sure := dialectOf(d.Body, g.ByNames); sure && of != dialect {
			s.Foreign = append(s.Foreign, Foreign{Document: d, Dialect: of})
			continue
		}
		l, err := s.Codec.Decode(d.Body)
		if err != nil {
			s.Unreadable = append(s.Unreadable, lease.Unreadable{ID: d.ID, Token: strings.TrimPrefix(d.ID, s.Codec.LeasePrefix()), Err: err})
			s.Broken = append(s.Broken, d)
			continue
		}
		s.Items = append(s.Items, Item{Document: d, Lease: l})
	}
	if s.Partitions, err = c.Source.Partitions(ctx); err != nil {
		return Survey{}, fmt.Errorf("look at the partitions of %s/%s: %w", c.Identity.Database, c.Identity.Container, err)
	}
	s.withRanges()
	sortItems(s.Items)
	return s, nil
}

// codec is that of a processor's documents in a dialect. host is spelled as the ids have it.
func (c *Container) codec(processor, host string, d lease.Dialect) (lease.Codec, error) {
	identity := c.Identity
	if host != "" {
		identity.AccountHost = host
	}
	return lease.NewCodec(d, lease.Key{Processor: processor, Identity: identity}, c.Keyed)
}

// choose finds the one group that is meant.
func (c *Container) choose(groups []Group, choice Choice) (Group, error) {
	var fit []Group
	for _, g := range groups {
		if !g.Known || choice.Processor != nil && g.Processor != *choice.Processor {
			continue
		}
		if choice.Dialect != nil && (*choice.Dialect == lease.JavaHandleChanges) != g.ByNames {
			continue
		}
		fit = append(fit, g)
	}
	// A marker without leases is what Java's second dialect leaves behind under the names of the first.
	if len(fit) > 1 {
		if full := slices.DeleteFunc(slices.Clone(fit), func(g Group) bool { return len(g.Leases) == 0 }); len(full) > 0 {
			fit = full
		}
	}
	all := slices.Clone(fit)
	fit = slices.DeleteFunc(fit, func(g Group) bool { return choice.Made.by(g, all) })
	switch len(fit) {
	case 1:
		return fit[0], nil
	case 0:
		return Group{}, &ChoiceError{reason: fmt.Sprintf("there are no leases of %s/%s in %s%s%s", c.Identity.Database, c.Identity.Container, c.Name, named(choice), others(groups))}
	}
	return Group{}, &ChoiceError{reason: fmt.Sprintf("several processors have leases of %s/%s in %s: say which one%s", c.Identity.Database, c.Identity.Container, c.Name, others(fit))}
}

// named says what of a choice was asked for.
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

// others says which leases there are.
func others(groups []Group) string {
	if len(groups) == 0 {
		return ""
	}
	var texts []string
	for _, g := range groups {
		switch {
		case !g.Known:
			texts = append(texts, fmt.Sprintf("%s, whose host is another than the endpoint's: use the endpoint that those hosts use", g.Prefix))
		default:
			texts = append(texts, fmt.Sprintf("--processor %q --dialect %s (%s)", g.Processor, g.Dialect().Name(), count(len(g.Leases), "lease", "leases")))
		}
	}
	return "; there are " + strings.Join(texts, "; ")
}

package letterstest

import (
	"errors"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
)

// containerCases returns the cases about opening a container.
func containerCases() []testCase {
	with := func(f Fixture) string { return missing(f.With == nil, "With") }
	return []testCase{
		{name: "a container with another partition key is refused by name", run: otherKeyPath, needs: with},
		{name: "a container with a default time to live is refused by name", run: defaultTTL, needs: with},
		{name: "a container is identified", run: identifies},
	}
}

// wantRefused checks that the container cannot be opened, and that the error has the words.
func (s *suite) wantRefused(c letters.Container, words ...string) {
	s.Helper()
	_, err := c.Open(s.ctx, mailer)
	var refused *letters.ContainerError
	if !errors.As(err, &refused) || !errors.Is(err, feed.ErrMisconfigured) {
		s.Fatalf("open: %v; want a *letters.ContainerError that is feed.ErrMisconfigured", err)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			s.Errorf("the error does not contain %q: %v", word, err)
		}
	}
}

func otherKeyPath(s *suite) {
	for _, paths := range [][]string{{"/id"}, {"/customer"}, {"/pk", "/id"}} {
		s.wantRefused(s.With(paths, 0), append(paths, letters.KeyPath)...)
	}
}

func defaultTTL(s *suite) {
	s.wantRefused(s.With([]string{letters.KeyPath}, 3600), "3600 s")
	for _, harmless := range []int{0, -1} {
		if _, err := s.With([]string{letters.KeyPath}, harmless).Open(s.ctx, mailer); err != nil {
			s.Errorf("open a container with a default time to live of %d: %v", harmless, err)
		}
	}
}

// identifies checks that all stores of one container have one identity, if they have any.
func identifies(s *suite) {
	one, can := s.store.(feed.Identifier)
	if !can {
		s.Skip("the store is no feed.Identifier, so a processor cannot refuse it in the monitored container")
	}
	id, err := one.ContainerID(s.ctx)
	if err != nil || id == (feed.ContainerID{}) {
		s.Fatalf("the container is %+v (%v)", id, err)
	}
	two, can := s.open(others()[0]).(feed.Identifier)
	if !can {
		s.Fatal("one store is a feed.Identifier, and another one is not")
	}
	if other, err := two.ContainerID(s.ctx); err != nil || other != id {
		s.Errorf("another store's container is %+v (%v); want %+v", other, err, id)
	}
}

// Package letterstest is the conformance suite for [letters.Container] and [letters.Store], with
// a case for every sentence in their contract. Use it when you write an engine of your own.
//
// The implementation's test calls [Run] with a function that creates a new, empty letters
// container:
//
//	func TestLettersConform(t *testing.T) { letterstest.Run(t, newFixture) }
//
// If the container can run in a synctest bubble, its test calls [RunInBubble] with the same
// function.
//
// Leave a [Fixture]'s function nil if the implementation does not support it. The cases that
// need it are then skipped, and the skip names it.
package letterstest

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/changefeed-go/changefeed/letters"
)

// New creates a new, empty letters container for one case, and closes its resources by
// t.Cleanup.
type New func(t *testing.T) Fixture

// Fixture is a letters container under test. Container is required.
type Fixture struct {
	// Container is the letters container under test.
	Container letters.Container
	// Documents returns how many documents the container holds, parts included, and Remove
	// deletes one of them past the Store.
	Documents func(ctx context.Context) (int, error)
	Remove    func(ctx context.Context, pk, id string) error
	// Split splits a partition of the container.
	Split func(ctx context.Context) error
	// With returns another letters container, with these properties: its key's paths and
	// its default time to live in seconds.
	With func(keyPaths []string, defaultTTL int) letters.Container
}

// testCase is a named case of the suite.
type testCase struct {
	name string
	// needs returns the name of a function that the fixture lacks, or "".
	needs func(f Fixture) string
	run   func(s *suite)
}

// Run runs every case in a subtest, on a new container from make.
func Run(t *testing.T, make New) {
	t.Helper()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) { c.try(t, make) })
	}
}

// RunInBubble is [Run] with each subtest in a synctest bubble of its own.
func RunInBubble(t *testing.T, make New) {
	t.Helper()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.try(t, make) })
		})
	}
}

// try runs the case on a new container, unless the fixture lacks a function that it needs.
func (c testCase) try(t *testing.T, make New) {
	f := make(t)
	if f.Container == nil {
		t.Fatal("a Fixture needs a Container")
	}
	if c.needs != nil {
		if name := c.needs(f); name != "" {
			t.Skipf("the fixture has no %s", name)
		}
	}
	s := &suite{T: t, Fixture: f, ctx: t.Context()}
	s.store = s.open(mailer)
	c.run(s)
}

// cases returns all cases of the suite.
func cases() []testCase {
	var all []testCase
	for _, group := range [][]testCase{putCases(), readCases(), changeCases(), partCases(), containerCases()} {
		all = append(all, group...)
	}
	return all
}

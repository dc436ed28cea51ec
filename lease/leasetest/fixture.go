// Package leasetest is the conformance suite of [lease.Container] and
// [lease.Store]: every sentence of their contract, as a case that a lease
// container passes or doesn't.
//
// An implementation calls [Run] with a function that makes a new, empty lease
// container, and, if it can live inside one, [RunInBubble] with the same function:
//
//	func TestLeasesConform(t *testing.T) { leasetest.Run(t, newFixture) }
//
// What an implementation can't do is left nil in its [Fixture], and the cases that
// need it are skipped by name.
package leasetest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

// New makes a new, empty lease container for one case. It calls t.Cleanup for what
// must be closed.
type New func(t *testing.T) Fixture

// Fixture is a lease container under test.
type Fixture struct {
	// Container is the lease container. Required.
	Container lease.Container
	// Advance lets d pass on the container's clock. In a bubble it may be nil:
	// there it is a sleep.
	Advance func(d time.Duration)
	// Document returns the JSON document of that id as it is stored, Replace stores
	// another in its place, or where none was, and Remove deletes it, as another
	// implementation would: for containers that keep documents.
	Document func(ctx context.Context, id string) ([]byte, error)
	Replace  func(ctx context.Context, id string, document []byte) error
	Remove   func(ctx context.Context, id string) error
}

// needs are the functions of a Fixture that a case can't do without.
type needs struct {
	advance, documents, remove bool
}

// testCase is one sentence of the contract, or a few that are checked together.
type testCase struct {
	name  string
	needs needs
	run   func(s *suite)
}

// Run runs every case in a subtest of its own.
func Run(t *testing.T, make New) {
	t.Helper()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) { c.try(t, make, false) })
	}
}

// RunInBubble runs every case in a subtest and a synctest bubble of its own.
func RunInBubble(t *testing.T, make New) {
	t.Helper()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.try(t, make, true) })
		})
	}
}

// try runs the case on a new container, or skips it by what is missing.
func (c testCase) try(t *testing.T, make New, bubble bool) {
	f := make(t)
	if f.Container == nil {
		t.Fatal("a Fixture needs a Container")
	}
	if f.Advance == nil && bubble {
		f.Advance = func(d time.Duration) { <-time.After(d) }
	}
	if c.needs.advance && f.Advance == nil {
		t.Skip("the fixture has no Advance")
	}
	if c.needs.documents && (f.Document == nil || f.Replace == nil) {
		t.Skip("the fixture has no Document and Replace")
	}
	if c.needs.remove && f.Remove == nil {
		t.Skip("the fixture has no Remove")
	}
	s := &suite{T: t, Fixture: f, ctx: t.Context()}
	s.store = s.open(key("projector"))
	c.run(s)
}

// cases are all cases, in the order of the files.
func cases() []testCase {
	var all []testCase
	for _, group := range [][]testCase{
		writeCases(), fieldCases(), markerCases(), clockCases(), sharingCases(), raceCases(),
	} {
		all = append(all, group...)
	}
	return all
}

// Package leasetest is the conformance suite for [lease.Container] and [lease.Store],
// with a case for every sentence in their contract. Use it when you write a lease
// container of your own.
//
// The implementation's test calls [Run] with a function that creates a new, empty lease
// container:
//
//	func TestLeasesConform(t *testing.T) { leasetest.Run(t, newFixture) }
//
// If the container can run in a synctest bubble, its test also calls [RunInBubble] with
// the same function.
//
// Leave a [Fixture]'s function nil if the implementation does not support it. The cases
// that need it are then skipped, and the skip names it.
//
// For an engine's change feed, use package feedtest.
package leasetest

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/lease"
)

// New creates a new, empty lease container for one case, and closes its resources by
// t.Cleanup.
type New func(t *testing.T) Fixture

// Fixture is a lease container under test. Container is required.
type Fixture struct {
	// Container is the lease container under test.
	Container lease.Container
	// Advance advances the container's clock by d. It may be nil for [RunInBubble], where
	// the suite sleeps instead.
	Advance func(d time.Duration)
	// Document returns the stored JSON document with an id. Replace replaces or creates it,
	// and Remove deletes it, past the Store, as another implementation would. They may be
	// nil if the container stores no documents.
	Document func(ctx context.Context, id string) ([]byte, error)
	Replace  func(ctx context.Context, id string, document []byte) error
	Remove   func(ctx context.Context, id string) error
}

// needs lists the functions of a Fixture without which a case is skipped.
type needs struct {
	advance, documents, remove bool
}

// testCase is a named case of the suite. It checks one sentence of the contract of
// lease.Store, or a few related ones.
type testCase struct {
	name  string
	needs needs
	run   func(s *suite)
}

// Run runs every case in a subtest, on a new container from make.
func Run(t *testing.T, make New) {
	t.Helper()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) { c.try(t, make, false) })
	}
}

// RunInBubble is [Run] with each subtest in a synctest bubble of its own.
func RunInBubble(t *testing.T, make New) {
	t.Helper()
	for _, c := range cases() {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.try(t, make, true) })
		})
	}
}

// try runs the case on a new container from make. It skips the case if the fixture lacks
// a function that the case needs.
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

// cases returns all cases of the suite.
func cases() []testCase {
	var all []testCase
	for _, group := range [][]testCase{
		writeCases(), fieldCases(), markerCases(), clockCases(), sharingCases(), raceCases(),
	} {
		all = append(all, group...)
	}
	return all
}

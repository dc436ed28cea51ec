package leasetest_test

import (
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/lease/leasetest"
)

// newMemoryFixture returns a new lease container of the implementation under test, here
// package memory, and the function that advances its clock.
func newMemoryFixture(*testing.T) leasetest.Fixture {
	ahead := time.Duration(0)
	return leasetest.Fixture{
		Container: memory.NewLeases(func() time.Time { return time.Now().Add(ahead) }),
		Advance:   func(d time.Duration) { ahead += d },
	}
}

// The suite is the body of a test in the package of an implementation:
//
//	func TestLeasesConform(t *testing.T) { leasetest.Run(t, newMemoryFixture) }
//
// An example has no testing.T, so this one calls that test through the helper run.
func Example() {
	conforms := run(func(t *testing.T) { leasetest.Run(t, newMemoryFixture) })
	fmt.Println("package memory conforms:", conforms)
	// Output: package memory conforms: true
}

// run runs a test once, without output, and reports whether it passed. The flags of `go
// test` have no effect on it.
func run(test func(*testing.T)) bool {
	for name, plain := range map[string]string{"test.v": "false", "test.skip": ""} {
		asked := flag.Lookup(name).Value.String()
		_ = flag.Set(name, plain) // never fails, because both flags accept these values
		defer func() { _ = flag.Set(name, asked) }()
	}
	var once sync.Once
	return testing.RunTests(
		func(string, string) (bool, error) { return true, nil },
		[]testing.InternalTest{{Name: "leases", F: func(t *testing.T) { once.Do(func() { test(t) }) }}},
	)
}

package letterstest_test

import (
	"flag"
	"fmt"
	"sync"
	"testing"

	"github.com/changefeed-go/changefeed/changefeedtest/memory"
	"github.com/changefeed-go/changefeed/letters/letterstest"
)

// newMemoryFixture returns a new letters container of the implementation under test, here
// package memory.
func newMemoryFixture(*testing.T) letterstest.Fixture {
	return letterstest.Fixture{Container: memory.NewLetters()}
}

// The suite is the body of a test in the package of an implementation:
//
//	func TestLettersConform(t *testing.T) { letterstest.Run(t, newMemoryFixture) }
//
// An example has no testing.T, so this one calls that test through the helper run.
func Example() {
	conforms := run(func(t *testing.T) { letterstest.Run(t, newMemoryFixture) })
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
		[]testing.InternalTest{{Name: "letters", F: func(t *testing.T) { once.Do(func() { test(t) }) }}},
	)
}

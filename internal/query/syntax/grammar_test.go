package syntax

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"testing"
)

var written = flag.Bool("grammar.written", false, "record that grammar.go was generated from grammar.y")

// The checksums in grammar.sum must match grammar.y and grammar.go. So the test fails if
// the grammar was changed and grammar.go was not generated again. It does not need
// goyacc.
func TestParserIsGeneratedFromTheGrammar(t *testing.T) {
	grammar, err := os.ReadFile("grammar.y")
	if err != nil {
		t.Fatal(err)
	}
	parser, err := os.ReadFile("grammar.go")
	if err != nil {
		t.Fatal(err)
	}
	sum := fmt.Sprintf("%x  grammar.y\n%x  grammar.go\n", sha256.Sum256(grammar), sha256.Sum256(parser))
	if *written {
		if err := os.WriteFile("grammar.sum", []byte(sum), 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	have, err := os.ReadFile("grammar.sum")
	if err != nil {
		t.Fatal(err)
	}
	if string(have) != sum {
		t.Error("grammar.go was not generated from this grammar.y; run `make generate`")
	}
}

package syntax

import (
	"crypto/sha256"
	"flag"
	"fmt"
	"os"
	"testing"
)

var written = flag.Bool("grammar.written", false, "grammar.go was just written: remember of which grammar.y")

// grammar.sum says of which grammar.y grammar.go was made, so that a change of
// the one without the other doesn't go unseen where goyacc can't be run.
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
		t.Error("grammar.go isn't what goyacc made of grammar.y: run `make generate`")
	}
}

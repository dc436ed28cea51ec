package main

import (
	"fmt"
	"os"

	"github.com/changefeed-go/changefeed/server"
)

// output is the file that is written, from the repository's root.
const output = "docs/support.md"

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "support:", err)
		os.Exit(1)
	}
}

// run writes the file of the repository at root.
func run(root string) error {
	in, err := read(root)
	if err != nil {
		return err
	}
	text, err := in.page(server.AllOperations())
	if err != nil {
		return err
	}
	return os.WriteFile(root+"/"+output, []byte(text), 0o644) //nolint:gosec // it is a part of the repository
}

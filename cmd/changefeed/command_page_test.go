package main

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

var updatePages = flag.Bool("pages.update", false, "write docs/command.md, docs/metrics.md and the tables of docs/json.md")

// comparePage fails the test if the file name in docs differs from text. With the flag
// -pages.update it writes text to the file instead.
func comparePage(t *testing.T, name, text string) {
	t.Helper()
	path := "../../docs/" + name
	if *updatePages {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil { //nolint:gosec // a page for everybody
			t.Fatal(err)
		}
	}
	page, err := os.ReadFile(path)
	if err != nil || string(page) != text {
		t.Errorf("docs/%s is stale (%v); run make pages", name, err)
	}
}

func TestCommandPageIsCurrent(t *testing.T) {
	var page bytes.Buffer
	page.WriteString("# The command\n\n" +
		"This page contains the help of the command `changefeed` and of each subcommand.\n" +
		"`make pages` generates it from the same texts that `changefeed help` prints.\n" +
		"[JSON](json.md) describes the output of `--json` and of `tail`.\n\n")
	var add func(cmd *cobra.Command)
	add = func(cmd *cobra.Command) {
		cmd.DisableAutoGenTag = true
		anchor := func(file string) string {
			return "#" + strings.ReplaceAll(strings.TrimSuffix(file, ".md"), "_", "-")
		}
		if err := doc.GenMarkdownCustom(cmd, &page, anchor); err != nil {
			t.Fatal(err)
		}
		for _, child := range cmd.Commands() {
			if child.IsAvailableCommand() && !child.IsAdditionalHelpTopicCommand() {
				add(child)
			}
		}
	}
	add(rootCommand())
	comparePage(t, "command.md", page.String())
}

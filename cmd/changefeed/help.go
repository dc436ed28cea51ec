package main

import (
	"strings"

	"github.com/spf13/cobra"
)

// helpWidth is the width of help texts in columns, which every terminal has.
const helpWidth = 80

// wrapHelp wraps the help texts of a command and of its subcommands at helpWidth.
func wrapHelp(cmd *cobra.Command) {
	for _, sub := range cmd.Commands() {
		wrapHelp(sub)
	}
	cmd.Long = wrapText(cmd.Long)
	if !cmd.HasParent() {
		cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), "Flags.FlagUsages", "Flags.FlagUsagesWrapped 80"))
		cmd.SetUsageTemplate(strings.ReplaceAll(cmd.UsageTemplate(), " for more information about a command.", " for more."))
	}
}

// wrapText wraps the paragraphs of a text. Indented lines are examples or tables, and stay
// as they are.
func wrapText(text string) string {
	var lines []string
	open := false // whether the last line is part of a paragraph that goes on
	for line := range strings.SplitSeq(text, "\n") {
		if line == "" || line[0] == ' ' {
			lines, open = append(lines, line), false
			continue
		}
		for word := range strings.FieldsSeq(line) {
			if last := len(lines) - 1; open && len([]rune(lines[last]))+1+len([]rune(word)) <= helpWidth {
				lines[last] += " " + word
			} else {
				lines, open = append(lines, word), true
			}
		}
	}
	return strings.Join(lines, "\n")
}

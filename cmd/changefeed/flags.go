package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/changefeed-go/changefeed/feed"
)

// usageError is an error in a command's flags or arguments.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

// Unwrap returns the error underneath.
func (e *usageError) Unwrap() error { return e.err }

// noArguments returns an error if a command has arguments. If the command has
// subcommands, the error lists them.
func noArguments(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	if !cmd.HasAvailableSubCommands() {
		return &usageError{fmt.Errorf("unexpected argument %q: `%s` takes only flags", args[0], cmd.CommandPath())}
	}
	return unknownCommand(cmd, args[0])
}

// unknownCommand returns the error for an argument that is not a subcommand of cmd. It
// lists the subcommands.
func unknownCommand(cmd *cobra.Command, word string) error {
	var names []string
	for _, sub := range cmd.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" && sub.Name() != "completion" {
			names = append(names, sub.Name())
		}
	}
	if len(names) == 0 {
		return &usageError{fmt.Errorf("unknown command %q: `%s` has no subcommands", word, cmd.CommandPath())}
	}
	meant := ""
	if like := cmd.SuggestionsFor(word); len(like) > 0 {
		meant = fmt.Sprintf(" (did you mean %s?)", strings.Join(like, " or "))
	}
	of := ""
	if cmd.HasParent() {
		of = " of `" + cmd.CommandPath() + "`"
	}
	return &usageError{fmt.Errorf("unknown command %q%s%s; the commands are %s", word, of, meant, strings.Join(names, ", "))}
}

// arguments returns a check that a command has at least least and at most most arguments.
// Its error calls them kind, and shows example.
func arguments(least, most int, kind, example string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		switch {
		case len(args) < least:
			return &usageError{fmt.Errorf("the %s is missing, as in `%s %s`", kind, cmd.CommandPath(), example)}
		case len(args) > most:
			return &usageError{fmt.Errorf("unexpected argument %q: the usage is `%s`", args[most], cmd.UseLine())}
		}
		return nil
	}
}

// required returns an error for the first required flag whose value is empty. pairs are
// the names and values of the flags, in turns.
func required(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] == "" {
			return &usageError{fmt.Errorf("%s is missing", pairs[i])}
		}
	}
	return nil
}

// flagError rewrites an error of the library pflag in the form of this command's own
// errors.
func flagError(err error) error {
	var (
		invalid *pflag.InvalidValueError
		unknown *pflag.NotExistError
		empty   *pflag.ValueRequiredError
	)
	switch {
	case errors.As(err, &invalid):
		kind := "a value that the help describes"
		switch flag := invalid.GetFlag(); flag.Value.Type() {
		case "duration":
			kind = "a duration with its unit, as in 5s, 10m or 1h"
		case "int", "uint64":
			kind = "a whole number"
		case "bool":
			kind = "true or false"
		}
		err = fmt.Errorf("--%s is %q: it must be %s", invalid.GetFlag().Name, invalid.GetValue(), kind)
	case errors.As(err, &unknown):
		name := "--" + unknown.GetSpecifiedName()
		if short := unknown.GetSpecifiedShortnames(); short != "" {
			name = "-" + unknown.GetSpecifiedName()
		}
		err = fmt.Errorf("unknown flag %s", name)
	case errors.As(err, &empty):
		err = fmt.Errorf("--%s needs a value", empty.GetFlag().Name)
	}
	return &usageError{err}
}

// These are the values of --mode. retiredMode is the former name of modeAVAD.
const (
	modeLatest  = "latest"
	modeAVAD    = "avad"
	retiredMode = "all-versions"
)

// modeHelp is the help of --mode in every command.
const modeHelp = "`mode`: latest, or avad for all versions and deletes"

// parseMode returns the mode for a value of --mode.
func parseMode(text string) (feed.Mode, error) {
	switch text {
	case modeLatest:
		return feed.LatestVersion, nil
	case modeAVAD:
		return feed.AllVersionsAndDeletes, nil
	case retiredMode:
		return 0, fmt.Errorf("--mode %s has another name now; use --mode %s", retiredMode, modeAVAD)
	}
	return 0, fmt.Errorf("--mode is %q: it must be %s or %s", text, modeLatest, modeAVAD)
}

// parseRange parses a value of --range.
func parseRange(text string) (feed.Range, error) {
	lower, upper, ok := strings.Cut(strings.ToUpper(text), "-")
	r := feed.Range{Min: lower, Max: upper}
	if !ok || r.IsEmpty() {
		return r, fmt.Errorf("--range is %q: it must be MIN-MAX, two effective partition keys in hexadecimal, for instance -80 or 80-FF", text)
	}
	return r, nil
}

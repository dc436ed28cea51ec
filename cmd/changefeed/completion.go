package main

import (
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/admin"
	"github.com/changefeed-go/changefeed/lease"
)

// offered contains, for each flag that has only a few values, these values for a shell's
// completion.
var offered = map[string][]cobra.Completion{
	"dialect": dialects(), "mode": {modeLatest, modeAVAD}, "tls": {"self-signed", "off"}, "log-level": {"debug", "info", "warn", "error"},
	"operation": admin.Operations(), "from": {"beginning", "now", "after:0"}, "start": {"beginning", "marker"},
}

func dialects() []cobra.Completion {
	return []cobra.Completion{lease.DotNet.Name(), lease.JavaHandleChanges.Name(), lease.JavaLatestVersion.Name()}
}

// files are the flags whose values are files, and directories those whose values are
// directories. A shell completes file names only for these.
var (
	files       = []string{"certificate", "key-file", "lease-certificate", "lease-key-file", "read-only-key-file", "output", "position", "input"}
	directories = []string{"data"}
)

// completed registers the completions for the values of all flags of a command and its
// subcommands.
func completed(cmd *cobra.Command) *cobra.Command {
	for _, sub := range cmd.Commands() {
		completed(sub)
	}
	for _, flags := range []*pflag.FlagSet{cmd.PersistentFlags(), cmd.Flags()} {
		flags.VisitAll(func(f *pflag.Flag) {
			if _, has := cmd.GetFlagCompletionFunc(f.Name); has {
				return
			}
			values := offered[f.Name]
			switch {
			case f.Name == "from" && cmd.Name() == "replicate":
				values = nil
			case f.Name == "to" && cmd.Name() == "convert":
				values = dialects()
			case f.Name == "to" && cmd.Name() == "reset":
				values = offered["from"]
			}
			directive := cobra.ShellCompDirectiveNoFileComp
			switch {
			case slices.Contains(files, f.Name):
				directive = cobra.ShellCompDirectiveDefault
			case slices.Contains(directories, f.Name):
				directive = cobra.ShellCompDirectiveFilterDirs
			}
			// This cannot fail, because the flag exists and has no completion yet.
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(values, directive))
		})
	}
	return cmd
}

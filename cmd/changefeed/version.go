package main

import (
	"cmp"
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"
)

// release is the version of this source tree. It is used for builds of a work tree, which
// record no version.
const release = "v0.1.0"

// A release sets these variables with -ldflags, see .goreleaser.yaml. They are needed
// because a build outside of a clone, from a source archive for instance, records none of
// the three.
var buildVersion, buildCommit, buildDate string

func versionCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := io.WriteString(cmd.OutOrStdout(), versionLine())
			return err
		},
	}
}

// versionLine returns the line that `changefeed version` and --version print.
func versionLine() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(info)
}

// versionName returns the version alone, as servers report it.
func versionName() string {
	return strings.Fields(versionLine())[1]
}

// versionOf returns the version of a build, the commit and its date if they are known, and
// the Go release. info may be nil.
func versionOf(info *debug.BuildInfo) string {
	version, commit, date, modified := "", "", "", ""
	if info != nil {
		// For a build of a work tree, this is (devel), or a pseudo-version made from the
		// commit.
		if v := info.Main.Version; v != "(devel)" {
			version = v
		}
		for _, s := range info.Settings {
			switch {
			case s.Key == "vcs.revision":
				commit = s.Value
			case s.Key == "vcs.time":
				date = s.Value
			case s.Key == "vcs.modified" && s.Value == "true":
				modified = " (modified)"
			}
		}
	}
	line := "changefeed " + cmp.Or(buildVersion, version, release)
	if commit = cmp.Or(buildCommit, commit); len(commit) >= 12 {
		line += " " + commit[:12] + modified
		if date = cmp.Or(buildDate, date); date != "" {
			line += " " + date
		}
	}
	return fmt.Sprintf("%s %s %s/%s\n", line, runtime.Version(), runtime.GOOS, runtime.GOARCH)
}

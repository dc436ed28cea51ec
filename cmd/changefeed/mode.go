package main

import (
	"fmt"
	"io"

	"github.com/changefeed-go/changefeed/feed"
)

// The values of --mode. retiredMode is another word for modeAVAD until the next release.
const (
	modeLatest  = "latest"
	modeAVAD    = "avad"
	retiredMode = "all-versions"
)

// modeHelp is the text of --mode in every command.
const modeHelp = "`mode`: latest, or avad for all versions and deletes"

// parseMode reads the value of --mode. It warns of the retired word.
func parseMode(text string, warnings io.Writer) (feed.Mode, error) {
	switch text {
	case modeLatest:
		return feed.LatestVersion, nil
	case retiredMode:
		warn(warnings, "--mode %s is deprecated, and the next release refuses it; use --mode %s", retiredMode, modeAVAD)
		return feed.AllVersionsAndDeletes, nil
	case modeAVAD:
		return feed.AllVersionsAndDeletes, nil
	}
	return 0, fmt.Errorf("--mode is %q: it is %s or %s", text, modeLatest, modeAVAD)
}

// warn prints a warning. A command runs without a reader of its errors, too.
func warn(w io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(w, "changefeed: warning: "+format+"\n", args...)
}

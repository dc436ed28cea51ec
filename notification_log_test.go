package changefeed

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// longError is an error with a message of one line. Its method Details returns further
// lines.
type longError struct{}

func (longError) Error() string   { return "the account answers 503" }
func (longError) Details() string { return "RESPONSE 503\nbody" }

func TestDetailsOfAnErrorAreLoggedAtDebugOnly(t *testing.T) {
	for level, want := range map[slog.Level]bool{slog.LevelInfo: false, slog.LevelDebug: true} {
		var out bytes.Buffer
		h := &host{journal: newJournal(), cfg: Config{Logger: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: level}))}}
		h.fail("7", &SourceError{Op: "read", Err: fmt.Errorf("read the feed: %w", longError{})})
		warned, _, _ := strings.Cut(out.String(), "\n")
		if !strings.Contains(warned, "the account answers 503") || strings.Contains(warned, "RESPONSE") || strings.Contains(out.String(), `details="RESPONSE 503\nbody"`) != want {
			t.Errorf("level %v: %s", level, &out)
		}
	}
}

// An error that ends Run is not retried, and the log must not say so.
func TestAnErrorThatEndsRunIsNotLoggedAsRetried(t *testing.T) {
	for _, fatal := range []bool{true, false} {
		var out bytes.Buffer
		h := &host{journal: newJournal(), cfg: Config{Logger: slog.New(slog.NewTextHandler(&out, nil))}}
		c := &cycle{host: h, ctx: t.Context(), first: true}
		err := &LeaseStoreError{Op: "use the lease container", Err: errors.New("the leases are of another dialect")}
		if fatal {
			c.out.fatal = err
		}
		_ = c.failed(err)
		if text := out.String(); !strings.Contains(text, "of another dialect") || strings.Contains(text, "retrying") == fatal {
			t.Errorf("fatal %t: %s", fatal, text)
		}
	}
}

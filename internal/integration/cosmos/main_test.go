package cosmos_test

import (
	"log/slog"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the log of these tests' processors would hide their results
	os.Exit(m.Run())
}

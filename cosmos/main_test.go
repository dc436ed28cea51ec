package cosmos_test

import (
	"log/slog"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	slog.SetDefault(slog.New(slog.DiscardHandler)) // the processors' log would hide the results of the tests
	os.Exit(m.Run())
}

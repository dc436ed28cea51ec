//go:build unix

package main

import (
	"context"
	"io"
	"os"
	"os/exec"
	"testing"
)

// `go test` starts the test binary as a child. Killing only the go command would leave the test
// running after the command has removed its files.
func TestKillTogetherKillsTheChildrenAsWell(t *testing.T) {
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = read.Close() }()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-c", "sleep 1000 & echo started; wait")
	cmd.Stdout = write
	killTogether(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = write.Close()
	if _, err := io.ReadFull(read, make([]byte, len("started\n"))); err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := cmd.Wait(); err == nil {
		t.Error("the command was not killed")
	}
	// The pipe ends when every process that can write to it has ended, including sleep.
	if _, err := io.ReadAll(read); err != nil {
		t.Fatal(err)
	}
}

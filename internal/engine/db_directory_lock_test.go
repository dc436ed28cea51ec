package engine_test

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestLockedDirectoryNamesItsUser(t *testing.T) {
	dir := t.TempDir()
	db, err := engine.Open(dir, engine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var locked *storetype.LockedError
	if _, err := engine.Open(dir, engine.Options{}); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("open in this process: %v", err)
	}
	// A directory that is open must be locked under its other names, too. Otherwise two
	// stores would write to the same files.
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Log(err) // some systems do not let every user create a symbolic link
	} else if second, err := engine.Open(link, engine.Options{}); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("open in this process through a symbolic link: %v", err)
		if err == nil {
			_ = second.Close()
		}
	}
	// Somebody who finds a LOCK file may take it for a remainder of a crash and delete it.
	// On Windows, the open file cannot be deleted.
	unlock := func() {
		if err := os.Remove(filepath.Join(dir, "LOCK")); err != nil {
			t.Log(err)
		}
	}
	unlock()
	if second, err := engine.Open(dir, engine.Options{}); !errors.As(err, &locked) || locked.PID != os.Getpid() {
		t.Errorf("open in this process without the LOCK file: %v", err)
		if err == nil {
			_ = second.Close()
		}
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}

	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKillChild$")
	child.Env = append(os.Environ(), killDirEnv+"="+dir, killSeedEnv+"=1")
	child.Stdin = strings.NewReader("{}")
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err) // the child prints a line once it has the directory
	}
	if _, err := engine.Open(dir, engine.Options{}); !errors.As(err, &locked) || locked.PID != child.Process.Pid {
		t.Errorf("open while process %d holds the lock: %v", child.Process.Pid, err)
	}
	unlock()
	if second, err := engine.Open(dir, engine.Options{}); !errors.As(err, &locked) || locked.PID != child.Process.Pid {
		t.Errorf("open while process %d holds the lock, without the LOCK file: %v", child.Process.Pid, err)
		if err == nil {
			_ = second.Close()
		}
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // returns the signal of the kill
	db, err = engine.Open(dir, engine.Options{})
	if err != nil {
		t.Fatalf("the lock outlived its process: %v", err)
	}
	if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
		t.Error(err)
	}
}

package main

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// moduleCopy is a copy of the module, in which tests run on changed code.
type moduleCopy struct {
	dir  string // holds everything below
	tree string // the module
	temp string // temporary files of the tests
}

// copyModule copies the module at root. The caller must remove the copy.
func copyModule(root string) (moduleCopy, error) {
	dir, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return moduleCopy{}, err
	}
	c := moduleCopy{dir: dir, tree: filepath.Join(dir, "tree"), temp: filepath.Join(dir, "tmp")}
	if err := errors.Join(os.Mkdir(c.temp, 0o755), copyTree(root, c.tree)); err != nil {
		return moduleCopy{}, errors.Join(err, c.remove())
	}
	return c, nil
}

// remove deletes the copy. It tries several times, because a test that was just killed may
// still be creating a file.
func (c moduleCopy) remove() (err error) {
	for range 20 {
		if err = os.RemoveAll(c.dir); err == nil {
			return nil
		}
		<-time.After(50 * time.Millisecond)
	}
	return err
}

// goTest runs `go test` in the copy. When ctx ends, it kills the go command and the tests that
// the command has started, and waits until they have ended. The temporary files of a killed
// test are removed with the copy.
func (c moduleCopy) goTest(ctx context.Context, args []string) (output string, err error) {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test"}, args...)...)
	cmd.Dir = c.tree
	cmd.Env = append(os.Environ(), "TMPDIR="+c.temp)
	killTogether(cmd)
	// A process that isn't killed with the others might hold the pipe of the output open.
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// moduleRoot returns the directory of go.mod. This is the current directory or one above
// it.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		if filepath.Dir(dir) == dir {
			return "", errors.New("not in a Go module")
		}
		dir = filepath.Dir(dir)
	}
}

// copyTree copies the module to the directory to, without Git's data and the built commands,
// which no test needs.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, name)
		switch {
		case d.IsDir() && (d.Name() == ".git" || d.Name() == "bin"):
			return filepath.SkipDir
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case !d.Type().IsRegular() || d.Name() == ".git": // the latter in a worktree
			return nil
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, content, 0o644)
	})
}

//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// killTogether lets cmd run in a process group of its own, and kills the whole group when the
// command's context ends. Otherwise the test binary would go on after the go command was killed.
func killTogether(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

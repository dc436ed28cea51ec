//go:build !unix

package main

import "os/exec"

// killTogether does nothing here. A test binary ends on its own after the go command was
// killed.
func killTogether(*exec.Cmd) {}

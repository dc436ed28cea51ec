package main

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/term"
)

// output is the standard output of a command. If its reader has closed it, the next write
// ends the command. SIGPIPE cannot be used for that, because sockets raise it as well.
type output struct {
	io.Writer
	// unread is called when a write fails because the reader has closed the output. It
	// ends the command.
	unread func(error)
}

func (o *output) Write(p []byte) (int, error) {
	n, err := harmless{o.Writer}.Write(p)
	if errors.Is(err, syscall.EPIPE) {
		err = errUnread
		o.unread(err)
	}
	return n, err
}

// terminalOf returns the file of f if that is a terminal. Otherwise it returns nil.
func terminalOf(f any) *os.File {
	if o, wrapped := f.(*output); wrapped {
		f = o.Writer
	}
	file, ok := f.(*os.File)
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return nil
	}
	return file
}

// terminal reports whether f is a terminal.
func terminal(f any) bool { return terminalOf(f) != nil }

package main

import (
	"errors"
	"io"
	"os"
	"syscall"

	"golang.org/x/term"
)

// output is the standard output. The first write after its reader has closed it ends the
// command. SIGPIPE cannot be used for that, because sockets also raise it when their peers
// close them.
type output struct {
	io.Writer
	// unread ends the command.
	unread func(error)
}

func (o *output) Write(p []byte) (int, error) {
	n, err := o.Writer.Write(p)
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

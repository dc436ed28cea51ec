// Command gohost runs hosts of this module's processor over package cosmos. It reads
// commands from its standard input, like the program of Java's hosts (interop/java,
// LiveHosts). The tests interop/mixed and interop/compare start it and kill it.
//
//	start HOST mode=... database=... monitored=... leases=... prefix=... [from=...] [items=...] [poll=...] [...]
//	stop HOST      block HOST      unblock HOST      quit
//
// It reads the account from CHANGEFEED_ENDPOINT and CHANGEFEED_KEY. mode also sets the
// dialect of the leases. It is dotnet or one of Java's modes: handleChanges,
// latestVersion, allVersions.
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/changefeed-go/changefeed/cosmos"
)

func main() {
	err := run(os.Stdin, &printer{out: os.Stdout})
	if err != nil {
		fmt.Fprintln(os.Stderr, "gohost:", err)
		os.Exit(1)
	}
}

// printer writes whole lines to the standard output. It is safe for concurrent use.
type printer struct {
	mu  sync.Mutex // guards out; held for a write to a pipe that is always read
	out io.Writer
}

// say prints one line of fields, which are separated by tabs. It replaces tabs and line
// breaks within a field by blanks.
func (p *printer) say(fields ...string) {
	for i, f := range fields {
		fields[i] = strings.Map(func(r rune) rune {
			if r == '\t' || r == '\n' || r == '\r' {
				return ' '
			}
			return r
		}, f)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, _ = io.WriteString(p.out, strings.Join(fields, "\t")+"\n")
}

// run executes commands from in until "quit". If the input ends without "quit", the test
// has ended, and run returns an error.
func run(in io.Reader, p *printer) error {
	account, err := cosmos.WithKey(os.Getenv("CHANGEFEED_ENDPOINT"), os.Getenv("CHANGEFEED_KEY"), cosmos.Options{})
	if err != nil {
		return err
	}
	all := &hosts{account: account, printer: p, running: map[string]*host{}}
	p.say("ready")
	for lines := bufio.NewScanner(in); lines.Scan(); {
		command := lines.Text()
		if command == "quit" {
			err := all.stopAll()
			p.say("ok", command)
			return err
		}
		if err := all.obey(strings.Fields(command)); err != nil {
			p.say("failed", command, err.Error())
			continue
		}
		p.say("ok", command)
	}
	return errors.New("the standard input ended")
}

// hosts contains the running hosts of this process by name. It is not safe for concurrent
// use.
type hosts struct {
	account *cosmos.Account
	printer *printer
	running map[string]*host
}

func (h *hosts) obey(words []string) error {
	if len(words) < 2 {
		return fmt.Errorf("command %q lacks a host", words)
	}
	verb, name := words[0], words[1]
	if verb == "start" {
		options := map[string]string{}
		for _, word := range words[2:] {
			key, value, _ := strings.Cut(word, "=")
			options[key] = value
		}
		started, err := start(context.Background(), h.account, h.printer, name, options)
		if err == nil {
			h.running[name] = started
		}
		return err
	}
	one := h.running[name]
	if one == nil {
		return fmt.Errorf("host %s does not exist", name)
	}
	switch verb {
	case "stop":
		delete(h.running, name)
		return one.stop()
	case "block":
		one.block()
	case "unblock":
		one.unblock()
	default:
		return fmt.Errorf("unknown command %s", verb)
	}
	return nil
}

func (h *hosts) stopAll() error {
	var err error
	for _, one := range h.running {
		err = errors.Join(err, one.stop())
	}
	return err
}

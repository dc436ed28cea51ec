package harness

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// CPU is the processor time that the process has used so far, as Linux counts it, in steps of 10 ms. Elsewhere it is an error.
func (p *Process) CPU() (time.Duration, error) { return processorTime(p.cmd.Process.Pid) }

// Memory is the largest resident memory that the process has had so far, in MiB, as Linux counts it. Elsewhere it is an error.
func (p *Process) Memory() (mib int, err error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", p.cmd.Process.Pid))
	if err != nil {
		return 0, err
	}
	_, rest, found := bytes.Cut(text, []byte("VmHWM:"))
	if fields := bytes.Fields(rest); found && len(fields) > 0 {
		kib, err := strconv.Atoi(string(fields[0]))
		return kib / 1024, err
	}
	return 0, fmt.Errorf("/proc/%d/status has no VmHWM", p.cmd.Process.Pid)
}

// CPU is the processor time that the server has used so far; see [Process.CPU].
func (s *Server) CPU() (time.Duration, error) { return processorTime(s.cmd.Process.Pid) }

// tick is the unit of /proc/PID/stat: a hundred a second on every Linux that Go runs on.
const tick = 10 * time.Millisecond

func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The name of the program stands in brackets and may have blanks; user and system time are the 12th and 13th field behind it.
	fields := bytes.Fields(text[bytes.LastIndexByte(text, ')')+1:])
	if len(fields) < 13 {
		return 0, fmt.Errorf("/proc/%d/stat is %q", pid, text)
	}
	var total time.Duration
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(string(f), 10, 64)
		if err != nil {
			return 0, err
		}
		total += time.Duration(n) * tick
	}
	return total, nil
}

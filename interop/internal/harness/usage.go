package harness

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"time"
)

// CPU returns the processor time that the process has used so far, in steps of 10 ms. It returns an
// error on systems other than Linux.
func (p *Process) CPU() (time.Duration, error) { return processorTime(p.cmd.Process.Pid) }

// Memory returns the largest resident memory of the process so far, in MiB. It returns an error on
// systems other than Linux.
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

// CPU returns the processor time that the server has used so far; see [Process.CPU].
func (s *Server) CPU() (time.Duration, error) { return processorTime(s.cmd.Process.Pid) }

// tick is the unit of /proc/PID/stat: 10 ms on every Linux that Go supports.
const tick = 10 * time.Millisecond

func processorTime(pid int) (time.Duration, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// The second field of the line is the program's name in brackets, which may contain
	// blanks. The 12th and 13th fields after it are the user time and the system time.
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

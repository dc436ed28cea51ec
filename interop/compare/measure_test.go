package compare

import (
	"fmt"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/changefeed-go/changefeed/interop/internal/harness"
)

// configuration contains the settings under which both processors are measured.
type configuration struct {
	mode  string // the name of the mode in Java's builder; also selects the dialect of the leases
	items int    // changes per page; 0 means the default
}

var configurations = []configuration{{"handleChanges", 0}, {"handleChanges", 1000}, {"latestVersion", 0}, {"latestVersion", 1000}}

// result is the measurement of one host that has read all changes.
type result struct {
	rate float64 // changes per second
	// host and server are the processor times of the two processes per thousand changes,
	// in milliseconds.
	host, server float64
}

// measure measures each kind of host several times in each configuration, one kind after
// the other. The first turn of each kind is a warm-up.
func (s *stage) measure() {
	w := tabwriter.NewWriter(s.Output(), 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintf(w, "mode\tpage\thost\tchanges/s (median)\tall rounds\tto Java\tCPU of the host\tof the server, for 1,000 changes\n")
	for _, at := range configurations {
		if *setting != "" && *setting != fmt.Sprintf("%s/%d", at.mode, at.items) {
			continue
		}
		kinds := []struct{ name, process, options string }{
			{"Java", "java", ""},
			{"Go", "go", ""},
			{"Go, GOGC=400", "gogc", ""},
			{"Go, each change decoded into a struct", "decoding", "decode=standard"},
			{"Go, each change decoded by sonicjson", "sonic", "decode=sonic"},
			{"Go, each change decoded by sonicjson, GOGC=400", "sonic-gogc", "decode=sonic"},
		}
		results := make([][]result, len(kinds))
		for round := range *rounds + 1 {
			for i, k := range kinds {
				if s.process[k.process] == nil {
					continue
				}
				r := s.turn(k.process, at, k.options)
				if round > 0 {
					results[i] = append(results[i], r)
				}
			}
		}
		java := 0.0
		if len(results[0]) > 0 {
			java = median(results[0], func(r result) float64 { return r.rate })
		}
		for i, k := range kinds {
			if len(results[i]) == 0 {
				continue
			}
			page := "default"
			if at.items > 0 {
				page = strconv.Itoa(at.items)
			}
			rate := median(results[i], func(r result) float64 { return r.rate })
			all := ""
			for _, r := range results[i] {
				all += fmt.Sprintf("%.0f ", r.rate)
			}
			_, _ = fmt.Fprintf(w, "%s\t%s\t%s\t%.0f\t%s\t%.1f\t%.1f ms\t%.1f ms\n", at.mode, page, k.name, rate, all, rate/java,
				median(results[i], func(r result) float64 { return r.host }),
				median(results[i], func(r result) float64 { return r.server }))
		}
		s.ok(w.Flush())
	}
}

// turn starts one host with new leases, waits until it has read all changes from the
// beginning, and returns its measurement.
func (s *stage) turn(process string, at configuration, options string) result {
	s.turns++
	p := s.process[process]
	name := fmt.Sprintf("%s-%d", process, s.turns)
	command := fmt.Sprintf("start %s mode=%s database=%s monitored=%s leases=%s prefix=%s from=beginning until=%d %s",
		name, at.mode, monitored.Database, monitored.Name, leases.Name, name, *documents, options)
	if at.items > 0 {
		command += fmt.Sprintf(" items=%d", at.items)
	}
	host, server := s.usage(p)
	s.ok(p.Command(s.Context(), command))
	var fields []string // host, changes, microseconds
	select {
	case fields = <-s.reached:
	case <-time.After(patience):
		s.Fatalf("%s had not read everything after %s", name, patience)
	}
	changes, err1 := strconv.ParseFloat(fields[2], 64)
	took, err2 := strconv.ParseFloat(fields[3], 64)
	if err1 != nil || err2 != nil || fields[1] != name || took == 0 {
		s.Fatalf("%s printed %q", name, fields)
	}
	hostAfter, serverAfter := s.usage(p)
	s.ok(p.Command(s.Context(), "stop "+name))
	thousands := changes / 1000
	return result{changes / took * 1e6, (hostAfter - host) / thousands, (serverAfter - server) / thousands}
}

// usage returns the processor time that a host's process and the server have used so far,
// in milliseconds.
func (s *stage) usage(p *harness.Process) (host, server float64) {
	h, err := p.CPU()
	s.ok(err)
	sv, err := s.Server.CPU()
	s.ok(err)
	return h.Seconds() * 1000, sv.Seconds() * 1000
}

func median(all []result, of func(result) float64) float64 {
	var values []float64
	for _, r := range all {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

package main

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/changefeed-go/changefeed/interop/internal/harness"
)

// A setting is the configuration of both processors.
type setting struct {
	mode  string // of Java's builder; the leases' dialect
	items int    // of a page, 0 for the default
}

var settings = []setting{{"handleChanges", 0}, {"handleChanges", 1000}, {"latestVersion", 0}, {"latestVersion", 1000}}

// A result is one host's reading of everything.
type result struct {
	rate float64 // changes a second
	// host and server are the processor time that a thousand changes took.
	host, server time.Duration
}

// measure measures each kind of host several times, in turns, for each setting. The first turn
// of each warms up.
func (s *stage) measure(ctx context.Context, rounds int, only string) error {
	w := tabwriter.NewWriter(s.out, 0, 0, 2, ' ', 0)
	harness.Printf(w, "mode\tpage\thost\tchanges/s (median)\tall rounds\tto Java\tCPU of the host\tof the server, for 1,000 changes\n")
	for _, at := range settings {
		if only != "" && only != fmt.Sprintf("%s/%d", at.mode, at.items) {
			continue
		}
		kinds := []struct{ name, process, options string }{
			{"Java", "java", ""},
			{"Go", "go", ""},
			{"Go, GOGC=400", "gogc", ""},
			{"Go, each change decoded into a struct", "decoding", "decode=1"},
		}
		results := make([][]result, len(kinds))
		for round := range rounds + 1 {
			for i, k := range kinds {
				if s.process[k.process] == nil {
					continue
				}
				r, err := s.turn(ctx, k.process, at, k.options)
				if err != nil {
					return err
				}
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
			harness.Printf(w, "%s\t%s\t%s\t%.0f\t%s\t%.1f\t%.1f ms\t%.1f ms\n", at.mode, page, k.name, rate, all, rate/java,
				median(results[i], func(r result) float64 { return r.host.Seconds() * 1000 }),
				median(results[i], func(r result) float64 { return r.server.Seconds() * 1000 }))
		}
		if err := w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// turn has one host read everything, with leases of its own, from the beginning.
func (s *stage) turn(ctx context.Context, process string, at setting, options string) (result, error) {
	s.turns++
	p := s.process[process]
	name := fmt.Sprintf("%s-%d", process, s.turns)
	command := fmt.Sprintf("start %s mode=%s database=%s monitored=%s leases=%s prefix=%s from=beginning until=%d",
		name, at.mode, monitored.Database, monitored.Name, leases.Name, name, s.documents)
	if options != "" {
		command += " " + options
	}
	if at.items > 0 {
		command += fmt.Sprintf(" items=%d", at.items)
	}
	host, err := p.CPU()
	if err != nil {
		return result{}, err
	}
	server, err := s.Server.CPU()
	if err != nil {
		return result{}, err
	}
	if err := p.Command(ctx, command); err != nil {
		return result{}, err
	}
	var r result
	select {
	case fields := <-s.reached: // host, changes, microseconds
		changes, err1 := strconv.ParseFloat(fields[2], 64)
		took, err2 := strconv.ParseFloat(fields[3], 64)
		if err1 != nil || err2 != nil || fields[1] != name || took == 0 {
			return r, fmt.Errorf("%s said %q", name, fields)
		}
		r.rate = changes / took * 1e6
		after, err := p.CPU()
		if err != nil {
			return r, err
		}
		r.host = (after - host) * 1000 / time.Duration(changes)
		if after, err = s.Server.CPU(); err != nil {
			return r, err
		}
		r.server = (after - server) * 1000 / time.Duration(changes)
	case <-time.After(patience):
		return r, fmt.Errorf("%s hadn't read everything after %s", name, patience)
	case <-ctx.Done():
		return r, context.Cause(ctx)
	}
	return r, p.Command(ctx, "stop "+name)
}

func median(all []result, of func(result) float64) float64 {
	var values []float64
	for _, r := range all {
		values = append(values, of(r))
	}
	slices.Sort(values)
	return values[len(values)/2]
}

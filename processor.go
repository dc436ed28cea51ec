// Package changefeed is a change feed processor: hosts share the partitions of a
// monitored container through leases, and hand every change to a handler at least once.
package changefeed

import "context"

// Processor reads a monitored container's change feed together with the other
// hosts of its name.
type Processor struct {
	cfg Config
}

// New checks cfg and returns a processor; it does no I/O.
func New(cfg Config) (*Processor, error) { panic("to do") }

// Run works until ctx ends. It may be called once. It returns nil when ctx ended and every handler
// had returned; else an error that names the leases whose handlers still run.
func (p *Processor) Run(ctx context.Context) error { panic("to do") }

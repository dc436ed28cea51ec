package serve

import "fmt"

// File descriptors of a server. A store without one for its log can't go on, so connections must never take the last ones.

const (
	// minDescriptors is the least limit of open files that a server starts with.
	minDescriptors = 64
	// ownDescriptors are the listeners', the log's, those of the store's files that are being written, and some spare.
	ownDescriptors = 32
	// minTables and maxTables are how many tables of the store are kept open.
	minTables = 16
	maxTables = 1000
	// tableShare is the part of the rest that the tables get.
	tableShare = 4
)

// descriptorPlan divides the file descriptors of a server.
type descriptorPlan struct{ tables, connections int }

// planDescriptors plans for a limit of open files; 0: none is known.
func planDescriptors(limit int) (descriptorPlan, error) {
	if limit == 0 {
		return descriptorPlan{tables: maxTables}, nil
	}
	if limit < minDescriptors {
		return descriptorPlan{}, fmt.Errorf("cannot serve with %d open files; raise the limit to at least %d, as by `ulimit -n 1024`", limit, minDescriptors)
	}
	rest := limit - ownDescriptors
	tables := min(max(rest/tableShare, minTables), maxTables)
	return descriptorPlan{tables: tables, connections: rest - tables}, nil
}

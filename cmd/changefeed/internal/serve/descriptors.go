package serve

import "fmt"

// This file divides the file descriptors of a server. Connections must never take the
// last ones, because a store fails without a descriptor for its log.

const (
	// minDescriptors is the lowest limit of open files with which a server starts.
	minDescriptors = 64
	// ownDescriptors are for the listeners, the log, the store's files that are being
	// written, and a reserve.
	ownDescriptors = 32
	// minTables and maxTables bound the number of store tables that are kept open.
	minTables = 16
	maxTables = 1000
	// The tables get 1/tableShare of the rest.
	tableShare = 4
)

// descriptorPlan divides the file descriptors of a server.
type descriptorPlan struct{ tables, connections int }

// planDescriptors divides a limit of open files. If the limit is 0, it is unknown.
func planDescriptors(limit int) (descriptorPlan, error) {
	if limit == 0 {
		return descriptorPlan{tables: maxTables}, nil
	}
	if limit < minDescriptors {
		return descriptorPlan{}, fmt.Errorf("cannot serve with %d open files; raise the limit to at least %d, for instance with `ulimit -n 1024`", limit, minDescriptors)
	}
	rest := limit - ownDescriptors
	tables := min(max(rest/tableShare, minTables), maxTables)
	return descriptorPlan{tables: tables, connections: rest - tables}, nil
}

package serve

import "fmt"

// This file divides a server's file descriptors between its connections and its store.
// Connections must never take the last ones, because a store fails without a descriptor
// for its log.

const (
	// minDescriptors is the lowest limit of open files at which a server starts.
	minDescriptors = 64
	// ownDescriptors is the number of descriptors for the listeners, the log, the files
	// that the store writes, and a reserve.
	ownDescriptors = 32
	// minTables and maxTables limit the number of table files that the store keeps open.
	minTables = 16
	maxTables = 1000
	// The store's tables get 1/tableShare of the remaining descriptors.
	tableShare = 4
)

// descriptorPlan contains the maximum number of the store's open tables and of open
// connections.
type descriptorPlan struct{ tables, connections int }

// planDescriptors divides a limit of open files. The limit 0 means that it is unknown.
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

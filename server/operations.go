package server

import "strings"

// Operation is an operation of the protocol that the server knows.
type Operation struct {
	// Name is what log, metrics and faults call it. Of one that isn't supported it is what it would be about: "a trigger".
	Name string
	// Method and Path are its requests'; each "*" of the path stands for an id. Operations of one method and path are told apart by
	// headers.
	Method, Path string
	// Supported is false for what is refused by name.
	Supported bool
}

// AllOperations are the operations of the table of routes, in its order; those that are refused come first.
func AllOperations() []Operation {
	var all []Operation
	for _, r := range new(Server).table() {
		what, is := strings.CutPrefix(r.op, refusedPrefix)
		all = append(all, Operation{Name: what, Method: r.method, Path: r.shape, Supported: !is})
	}
	return all
}

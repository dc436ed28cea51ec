// Package patch applies partial updates to JSON documents: the patch operations of the
// Cosmos DB REST API.
//
//	p, err := patch.Parse([]byte(`{"operations":[{"op":"incr","path":"/stock","value":-1}]}`))
//	after, err := p.Apply(before)
//
// A document is changed as text. Every byte that no operation changes stays the same,
// numbers and white space included, until the store makes the result canonical. Only names along the paths are decoded. All functions
// are pure and safe for concurrent use.
//
// # Operations
//
// Paths are JSON pointers. /a/b is member b of member a, and /list/0 is the first element
// of list. /list/- is the index after its last element. In a name, ~1 is a slash and ~0
// is a tilde. Every operation needs an existing parent.
//
//	add      adds or replaces a member; inserts an element
//	set      adds or replaces a member; replaces an element
//	replace  replaces an existing value
//	remove   deletes an existing member or element
//	incr     adds to a number; adds a missing member with the value
//	move     removes the existing value at from, and adds it at path
package patch

// Package patch carries out partial updates of JSON documents: the patch operations of the
// Cosmos DB REST API.
//
//	p, err := patch.Parse([]byte(`{"operations":[{"op":"incr","path":"/stock","value":-1}]}`))
//	after, err := p.Apply(before)
//
// A document is changed as text: what no operation touches stays byte for byte as it was, numbers and white space
// included. Only names along the paths are decoded. Everything here is pure, and safe for concurrent use.
//
// # What the operations do
//
// Paths are JSON pointers: /a/b is member b of member a, /list/0 the first element of list, /list/- the place
// behind its last; ~1 is a slash in a name, ~0 a tilde. The parent must be there, in every operation.
//
//	add      puts a member in, in the place of one that is there; inserts an element
//	set      the same, but puts an element in the place of the one that is there
//	replace  puts a value in the place of one that must be there
//	remove   takes out a member or element that must be there
//	incr     adds to a number; what isn't there becomes the value
//	move     takes out the value at from, which must be there, and adds it at path
package patch

// Package jsonscan goes over JSON text (RFC 8259) and judges it, without making values of it: to split a page of a feed
// into its documents, say, all of which stay slices of the page.
//
// It accepts what encoding/json/jsontext does, nested up to a depth: UTF-8 is checked, and a surrogate escape needs its other
// half. Names that occur twice are the caller's concern. It looks at eight bytes of a string at a time and allocates nothing.
//
// A [Scanner] is a value with a place in a text; it is not safe for concurrent use. Nothing here does I/O.
package jsonscan

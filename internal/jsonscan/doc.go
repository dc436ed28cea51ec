// Package jsonscan scans JSON text (RFC 8259) without decoding it. For example, it splits
// a page of a feed into documents that are slices of the page.
//
// It accepts the same texts as encoding/json/jsontext, up to a depth of nesting. It
// refuses invalid UTF-8 and halves of surrogate pairs (unless [Scanner.AcceptHalves] is
// called), and accepts duplicate names. It compares eight bytes of a string at a time and
// does not allocate. [Scanner.Loose] reports whether the text may differ from the form in
// which the service stores it.
//
// [New] returns a [Scanner] of a text. [Scanner.Value] skips a value of any type.
// [Scanner.Members] skips an object and finds members by their names. [Scanner.Object],
// [Scanner.Name] and [Scanner.Next] visit each member of an object. [Scanner.Array] and
// Next visit the elements of an array. [Scanner.Slice] returns the skipped text.
//
// A Scanner is not safe for concurrent use. The package does no I/O.
package jsonscan

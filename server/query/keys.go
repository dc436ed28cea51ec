package query

// KeyFilter returns the partition key that the condition asks for: for each
// path (as its names, ["a","b"] for /a/b) the value that a top-level conjunction
// says it equals: nil (null), bool, float64 or string. ok is false unless every
// path has one. It is a hint for the scan; the documents are still filtered.
func (b *Bound) KeyFilter(paths [][]string) (key []any, ok bool) {
	return nil, false
}

// IDFilter returns what a top-level conjunction says of the documents' id:
// equal to eq (exact), or beginning with prefix, in the same case. ok is false
// when it says nothing of use. It is a hint for the scan; the documents are
// still filtered.
func (b *Bound) IDFilter() (id string, exact, ok bool) {
	return "", false, false
}

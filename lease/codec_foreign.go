package lease

import "strings"

// foreignError reports that a document with the codec's own prefix is in another dialect.
type foreignError struct{ dialect Dialect }

func (e *foreignError) Error() string { return "the document is in " + e.dialect.String() }

// elsewhere returns the dialect of a document whose ID does not belong to this codec. It
// returns false if the ID belongs to no dialect.
func (c Codec) elsewhere(id string, doc []byte) (Dialect, bool) {
	for _, d := range []Dialect{JavaHandleChanges, DotNet, JavaLatestVersion} {
		prefix, err := d.prefix(c.key)
		if d == c.dialect || err != nil || !strings.HasPrefix(id, prefix+separator) {
			continue
		}
		if d == JavaHandleChanges {
			return d, true
		}
		// DotNet and JavaLatestVersion have the same prefix if the host is in lower case.
		return rangeDialect(doc), true
	}
	return DotNet, false
}

// rangeDialect returns DotNet or JavaLatestVersion, whose documents may have the same
// ids. It looks at the name of the member that holds the range, and at the form of the
// position.
func rangeDialect(doc []byte) Dialect {
	found := DotNet
	_ = scan(doc, func(m member) error { // text that is not JSON belongs to no dialect
		switch string(m.key) {
		case "feedRange":
			found = JavaLatestVersion
		case "ContinuationToken":
			if text, err := m.text(); err == nil && isWrapped(text) {
				found = JavaLatestVersion
			}
		}
		return nil
	})
	return found
}

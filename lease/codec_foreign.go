package lease

import "strings"

// foreignError reports that a document has the codec's own prefix in its id, but the form
// of another dialect.
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
		// The prefix belongs to DotNet and JavaLatestVersion if the host is in lower
		// case, so the form of the document decides.
		return rangeDialect(doc), true
	}
	return DotNet, false
}

// rangeDialect returns DotNet or JavaLatestVersion, whose documents may have the same
// ids. It looks at the name of the member that holds the range, and at the form of the
// position.
func rangeDialect(doc []byte) Dialect {
	found := DotNet
	_ = scan(doc, func(m member) error { // a text that is not JSON has no members
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

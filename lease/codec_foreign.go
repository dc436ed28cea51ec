package lease

import "strings"

// foreignError tells that a document under the codec's own prefix is one of another
// dialect.
type foreignError struct{ dialect Dialect }

func (e *foreignError) Error() string { return "it is in " + e.dialect.String() }

// elsewhere tells in which dialect a document is that is none by its id in the
// codec's own.
func (c Codec) elsewhere(id string, doc []byte) (Dialect, bool) {
	for _, d := range []Dialect{JavaHandleChanges, DotNet, JavaLatestVersion} {
		prefix, err := d.prefix(c.key)
		if d == c.dialect || err != nil || !strings.HasPrefix(id, prefix+separator) {
			continue
		}
		if d == JavaHandleChanges {
			return d, true
		}
		// The other two have the same prefix where the host is in lower case.
		return rangeDialect(doc), true
	}
	return DotNet, false
}

// rangeDialect tells the documents of DotNet and JavaLatestVersion apart, which may
// have the same ids: by the member that holds the range, else by the position.
func rangeDialect(doc []byte) Dialect {
	found := DotNet
	_ = scan(doc, func(m member) error { // what isn't JSON is nobody's
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

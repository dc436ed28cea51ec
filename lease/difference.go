package lease

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Difference shows what changes from one lease document to another, a line for each
// member, with - in front of what goes and + in front of what comes. A position of
// [JavaLatestVersion] is shown as what it says. Members that only the service writes
// are left out.
func Difference(before, after []byte) string {
	was, is := shown(before), shown(after)
	var b strings.Builder
	for _, m := range was {
		if slices.Contains(is, m) {
			fmt.Fprintf(&b, "  %s\n", m)
		} else {
			fmt.Fprintf(&b, "- %s\n", m)
		}
	}
	for _, m := range is {
		if !slices.Contains(was, m) {
			fmt.Fprintf(&b, "+ %s\n", m)
		}
	}
	return b.String()
}

// shown are the members of a document as lines, in its order.
func shown(doc []byte) []string {
	var lines []string
	err := scan(doc, func(m member) error {
		name, value := string(m.key()), string(m.value)
		switch name {
		case "_etag", "_rid", "_self", "_attachments", "_ts", "_lsn":
			return nil
		case "ContinuationToken":
			if text, err := m.text(); err == nil && isWrapped(text) {
				if state, err := fromBase64(text); err == nil {
					value = string(state)
				}
			}
		}
		var compact bytes.Buffer
		if json.Compact(&compact, []byte(value)) == nil {
			value = compact.String()
		}
		lines = append(lines, name+": "+value)
		return nil
	})
	if err != nil {
		return []string{string(doc)}
	}
	return lines
}

package lease

import (
	"fmt"
	"strings"
)

// Dialect is how lease documents are written, and therefore with whose hosts a
// store of leases can be shared: .NET's processor and each of the two kinds of
// Java's read other ids and members. One store holds one dialect, and all hosts of
// a processor use the same. The zero Dialect is [DotNet].
type Dialect int

// The dialects.
const (
	// DotNet is the dialect of the .NET processor, which Azure Functions and
	// KEDA read too. A lease is for a whole partition or for a range of keys, and
	// its position is the feed's own text.
	DotNet Dialect = iota
	// JavaHandleChanges is that of Java hosts built with handleChanges. A lease
	// is for a whole partition, by its id, and has no range. It knows neither
	// merges of partitions nor all versions and deletes. Ids have the names of the
	// database and the container and not their rids, so leases outlive a container
	// that is deleted and made anew; see PropertyContainer.
	JavaHandleChanges
	// JavaLatestVersion is that of Java hosts built with
	// handleLatestVersionChanges or handleAllVersionsAndDeletesChanges. Every lease
	// is for a range of keys, and its position is wrapped together with the start.
	JavaLatestVersion
)

// dialects are the names by which [ParseDialect] knows them.
var dialects = []string{DotNet: "dotnet", JavaHandleChanges: "java-handle-changes", JavaLatestVersion: "java-latest-version"}

// ParseDialect reads the name that [Dialect.Name] gives. The empty text is DotNet.
func ParseDialect(name string) (Dialect, error) {
	if name == "" {
		return DotNet, nil
	}
	for d, known := range dialects {
		if name == known {
			return Dialect(d), nil
		}
	}
	return DotNet, fmt.Errorf("%q is no dialect of leases; there are %s", name, strings.Join(dialects, ", "))
}

// Name is the dialect's name for flags and files.
func (d Dialect) Name() string {
	if d < 0 || int(d) >= len(dialects) {
		return fmt.Sprintf("dialect-%d", int(d))
	}
	return dialects[d]
}

// String describes the dialect for messages.
func (d Dialect) String() string {
	switch d {
	case DotNet:
		return ".NET's dialect"
	case JavaHandleChanges:
		return "the dialect of Java's handleChanges"
	case JavaLatestVersion:
		return "the dialect of Java's handleLatestVersionChanges"
	}
	return d.Name()
}

// DialectSource is a [feed.Source] whose reads depend on the dialect of the leases. A
// processor refuses one whose dialect is not that of its lease container. Any other source
// serves every dialect.
type DialectSource interface {
	// Dialect returns the dialect that the source was made for.
	Dialect() Dialect
}

// DialectError tells that a lease container can't be used as it is.
type DialectError struct {
	// Found says what is there, and Remedy what to do.
	Found, Remedy string
}

func (e *DialectError) Error() string { return e.Found + "; " + e.Remedy }

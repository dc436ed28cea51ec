package lease

import (
	"fmt"
	"strings"
)

// Dialect is the format of lease documents. It decides which hosts can share a lease
// store: .NET's processor and the two kinds of Java's processor use different ids and
// members. A store has one dialect, and all hosts of a processor use the same one. The
// zero Dialect is [DotNet].
type Dialect int

// The dialects.
const (
	// DotNet is the dialect of the .NET processor. Azure Functions and KEDA read it too.
	// A lease is for a whole partition or for a range of keys. Its position is the feed's
	// own text.
	DotNet Dialect = iota
	// JavaHandleChanges is the dialect of Java hosts built with handleChanges. A lease is
	// for a whole partition, by its id, and has no range. The dialect supports neither
	// merges of partitions nor all versions and deletes.
	//
	// Its ids contain the names of the database and the container instead of their rids.
	// So leases survive when the container is deleted and recreated; see
	// PropertyContainer.
	JavaHandleChanges
	// JavaLatestVersion is the dialect of Java hosts built with
	// handleLatestVersionChanges or handleAllVersionsAndDeletesChanges. Every lease is
	// for a range of keys. Its position is wrapped together with the start.
	JavaLatestVersion
)

// dialects are the names that [ParseDialect] accepts.
var dialects = []string{DotNet: "dotnet", JavaHandleChanges: "java-handle-changes", JavaLatestVersion: "java-latest-version"}

// ParseDialect returns the dialect with the name that [Dialect.Name] returns. The empty
// name is DotNet.
func ParseDialect(name string) (Dialect, error) {
	if name == "" {
		return DotNet, nil
	}
	for d, known := range dialects {
		if name == known {
			return Dialect(d), nil
		}
	}
	return DotNet, fmt.Errorf("unknown lease dialect %q; use one of %s", name, strings.Join(dialects, ", "))
}

// Name returns the dialect's name for flags and files.
func (d Dialect) Name() string {
	if d < 0 || int(d) >= len(dialects) {
		return fmt.Sprintf("dialect-%d", int(d))
	}
	return dialects[d]
}

// String returns a description of the dialect for messages.
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

// DialectError reports that a lease container cannot be used with its dialect.
type DialectError struct {
	// Found describes the state of the container. Remedy describes what to do.
	Found, Remedy string
}

func (e *DialectError) Error() string { return e.Found + "; " + e.Remedy }

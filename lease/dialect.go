package lease

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Dialect is the format of lease documents. It decides which hosts can share leases,
// since .NET's processor and Java's two kinds use different ids and members. Keep the
// zero value, [DotNet], unless Java hosts share the work or are to be replaced. All hosts
// of a processor use the same dialect.
type Dialect int

// The dialects.
const (
	// DotNet is the .NET processor's dialect, which Azure Functions and KEDA read too. A
	// lease is for a whole partition or for a range of keys, and its position is the feed's
	// own text.
	DotNet Dialect = iota
	// JavaHandleChanges is for Java hosts built with handleChanges. A lease is for a whole
	// partition, by its id, and has no range, which is why neither merges of partitions nor
	// all versions and deletes are supported.
	//
	// Since its ids contain the names of the database and the container instead of their
	// rids, leases survive when the container is deleted and recreated; see
	// [PropertyContainer].
	JavaHandleChanges
	// JavaLatestVersion is for Java hosts built with handleLatestVersionChanges or
	// handleAllVersionsAndDeletesChanges. Every lease is for a range of keys, and its
	// position is wrapped together with the start.
	JavaLatestVersion
)

// dialects are the names that [ParseDialect] accepts.
var dialects = []string{DotNet: "dotnet", JavaHandleChanges: "java-handle-changes", JavaLatestVersion: "java-latest-version"}

// ParseDialect returns the dialect whose [Dialect.Name] is given, or [DotNet] for an
// empty name.
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
	// Found describes the container's state, and Remedy what to do.
	Found, Remedy string
}

func (e *DialectError) Error() string { return e.Found + "; " + e.Remedy }

// CheckContainer returns a *[DialectError] if a container with these properties cannot hold leases.
// name is for the error, systemKey reports whether the container was created without a partition key,
// and defaultTTL is in seconds: 0 without time to live, -1 if only items with a ttl of their own
// expire. keyed is the argument partitionKeyField of [NewCodec].
func CheckContainer(name string, keyPaths []string, systemKey bool, defaultTTL int) (keyed bool, err error) {
	const remedy = "use a container that is partitioned by /id for the leases"
	keyed = slices.Equal(keyPaths, []string{"/partitionKey"})
	if !keyed && !systemKey && !slices.Equal(keyPaths, []string{"/id"}) {
		return false, &DialectError{
			Found:  fmt.Sprintf("the container %s is partitioned by %s, so leases cannot be found by their ids", name, cmp.Or(strings.Join(keyPaths, ", "), "nothing (a fixed collection)")),
			Remedy: remedy + ", or by /partitionKey (accounts of the API for Gremlin do not allow /id)",
		}
	}
	if defaultTTL > 0 {
		return false, &DialectError{
			Found:  fmt.Sprintf("the container %s lets items expire after %d s, and an expired lease loses its position", name, defaultTTL),
			Remedy: "set its default time to live to -1 (enabled without a default), or " + remedy,
		}
	}
	return keyed, nil
}

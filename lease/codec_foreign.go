package lease

import (
	"maps"
	"net/netip"
	"slices"
	"strings"
)

// OtherHosts returns the account hosts, sorted, under which ids has leases of the same
// processor and monitored container, apart from the codec's own host. If there are any,
// the processor's hosts reach the account at several endpoints, for instance localhost
// and 127.0.0.1, and since they don't see each other's leases, each group delivers every
// change.
//
// In an id nothing separates the processor's name from the host, so "orders1" at 27.0.0.1
// and "orders" at 127.0.0.1 have the same ids. Because a warning about healthy leases is
// worse than none, OtherHosts is silent wherever an id may belong to a processor with
// another name: if it ends in the own host or in another one that is returned, if no host
// follows the name, or if what follows is a single word other than localhost.
func (c Codec) OtherHosts(ids []string) []string {
	found, own := map[string]bool{}, strings.ToLower(c.key.Identity.AccountHost)
	for _, id := range ids {
		for _, infix := range []string{
			"_" + c.key.Identity.DatabaseRID + "_" + c.key.Identity.ContainerRID + separator,
			"_" + c.key.Identity.Database + "_" + c.key.Identity.Container + separator,
		} {
			head, _, infixed := strings.Cut(id, infix)
			host, named := strings.CutPrefix(head, c.key.Processor)
			host = strings.ToLower(host)
			if infixed && named && isHost(host) && !strings.HasSuffix(strings.ToLower(head), own) {
				found[host] = true
			}
		}
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(found)), func(host string) bool {
		for other := range found {
			if host != other && strings.HasSuffix(host, other) {
				return true
			}
		}
		return false
	})
}

// isHost reports whether text, in lower case, is the host of an account: localhost, an IP
// address, or a DNS name of several labels. A name whose last label is a number is none.
func isHost(text string) bool {
	if _, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil || text == "localhost" {
		return true
	}
	labels := strings.Split(strings.TrimSuffix(text, "."), ".")
	for _, l := range labels {
		if l == "" || l[0] == '-' || l[len(l)-1] == '-' || strings.Trim(l, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
			return false
		}
	}
	return len(labels) > 1 && strings.Trim(labels[len(labels)-1], "0123456789") != ""
}

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

package protocol

import (
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// OtherDialect returns the dialect of leases that the source reads for. ok is true if that
// is another one than the dialect of the lease container, so that the two must not be used
// together. A source whose reads depend on the dialect has the method Dialect, as those of
// Azure Cosmos DB have; any other source goes with every dialect.
func OtherDialect(source feed.Source, leases lease.Container) (d lease.Dialect, ok bool) {
	s, depends := source.(interface{ Dialect() lease.Dialect })
	if !depends {
		return 0, false
	}
	return s.Dialect(), s.Dialect() != leases.Dialect()
}

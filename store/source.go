package store

import "github.com/changefeed-go/changefeed/feed"

// Source is the change feed of a container.
//
// Its continuations are a decimal LSN in double quotes; one of any partition of
// the container can be given to any other. A start in the future is
// now. It can wait: a read with Wait is answered when the first change comes.
// In all versions and deletes mode a start from the beginning or a time is
// refused (feed.ErrUnsupported), and so is a container without Retention.
func (db *DB) Source(c *Container) feed.Source { panic("to do") }

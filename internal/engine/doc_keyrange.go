package engine

import "github.com/changefeed-go/changefeed/feed"

// KeyRange is the range of effective partition keys that a logical partition
// key, or a prefix of a hierarchical one, lies in. Error: *[BadRequestError], when
// it can be no key of the container.
func (c *Container) KeyRange(key feed.PartitionKey) (feed.Range, error) {
	s, err := c.newScope(feed.Range{}, key)
	return s.keys, err
}

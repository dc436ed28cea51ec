package engine

// ItemFilter says which documents a visit shows.
type ItemFilter struct {
	// New makes a function that says of documents whether to show them. It is called once for every goroutine that the store reads a batch of
	// documents with, and documents are judged in the order in which they were written, ahead of the visits. A judge has no more than one document
	// at a time, valid during the call only, which it must not change. Its error is returned as it is.
	New func() (judge func(body []byte) (bool, error))
	// AsStored says that judges may be given documents with one member more than VisitedItem.Body has, _lsn, behind all others. That saves
	// a copy of each.
	AsStored bool
	// Enough is after how many documents the visitor is likely to have enough. It says how many are worth judging ahead; default: it isn't known.
	Enough int
}

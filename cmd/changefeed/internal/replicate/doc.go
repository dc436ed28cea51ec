// Package replicate is the work of `changefeed replicate`: it copies a container
// into another one, which may be keyed by other properties, and keeps the copy up
// to date, by processors whose leases several processes share.
//
// # A change's way
//
// A batch of changes is collapsed to one [plan] per document: what the document
// is at last, and under which keys of the target it was before ([collapse]). The
// writer carries the plans out by bulk writes, and the batch's position is
// checkpointed when all of it is in the target. So a crash repeats writes, and
// loses none.
//
// # Another key
//
// A document is known by its key in the source and its id. The target may hold
// one document per key of its own and id, so
//
//   - a document whose new key changes has to leave its old place: the new one is
//     written first, then the old one deleted, if it still is this document's;
//   - two documents of the source may ask for one place. That is found because
//     nothing is written over a document that wasn't read: writes are creates, or
//     replaces by etag. Before the run stops, the source says whether both really
//     are there: a copy may be behind it.
//
// Where a document was before is told by its previous image in all versions and deletes mode, else
// by a look-up of its id in the target. A change that was made before the
// replication began into an empty target can't have been copied under another
// key, and needs none.
//
// # All versions and deletes
//
// That feed has no past. So its leases are made first, at now, and held while the
// latest versions are copied; then its changes are applied. What they repeat ends
// as the source does.
package replicate

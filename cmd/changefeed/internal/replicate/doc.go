// Package replicate implements `changefeed replicate`: it copies a container into another
// one, which may have another partition key, and keeps the copy up to date. It runs
// processors whose leases several processes share.
//
// # The path of a change
//
// A batch of changes is collapsed to one [plan] per document: its last version, and the
// keys of the target under which it was before ([collapse]). The writer carries out the
// plans with bulk writes. The batch's position is checkpointed when all of it is in the
// target. A crash therefore repeats writes, and loses none.
//
// # Another key
//
// A document is identified by its key in the source and its id. The target can hold one
// document per id and target key. This has two consequences:
//
//   - When a document's new key changes, its old copy must be deleted. The new copy is
//     written first. Then the old one is deleted, if it still belongs to this document.
//   - Two documents of the source may have the same id and new key. The writer detects
//     that, because it never overwrites a document that it has not read: it creates, or
//     replaces by etag. Before the run fails, it checks in the source that both documents
//     really exist, because a copy may be outdated.
//
// The same applies if only one of the containers has version 1 of the hash, which makes one
// logical partition of keys that differ only behind their first 100 characters. A document
// is then identified by its logical partition in the source, and its key can change.
//
// In all versions and deletes mode, the previous image contains a document's old key. In
// latest version mode, its id is looked up in the target. If the target was empty when
// the replication began, older changes need no look-up: they cannot have been copied
// under another key.
//
// # All versions and deletes
//
// The feed of all versions and deletes cannot be read from an earlier time. So its leases
// are created first, at now, and their batches wait while the latest versions are copied.
// Then the batches are applied. Some changes are applied twice in this way. The target
// still ends in the source's state.
package replicate

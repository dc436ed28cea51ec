// Package letters holds dead letters: changes that a handler could not process, and the later
// changes of their partition keys, which wait behind them. Package lease is its sibling: here,
// too, an engine has a container ([Container]), in which each processor has its own documents
// ([Store]).
//
// Most programs only pass an engine's Container (from store.DB.Letters or
// cosmos.Account.Letters, say) to the processor. A program that shows letters opens a Store
// and reads it:
//
//	store, err := container.Open(ctx, letters.Key{}) // of every processor
//	for l, err := range store.Read(ctx, letters.Query{}) {
//		...
//	}
//
// A [Letter] is a JSON document that any SDK can read; docs/letters.md lists its members. The
// letters of one source key are one logical partition of the letters container and have an
// order, which is the order of the changes. Each also has the hash of its key in the source
// container, so that a lease's owner reads the letters of its range with one query, whatever
// the partitions of either container, and no split or merge moves a letter.
//
// To support another engine, implement [Documents], which is little more than reading, writing
// and finding documents, and let [NewStore] do the rest. Package letterstest is the conformance
// suite.
package letters

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
// letters that belong to one source key are one logical partition in the letters container, and
// have the same order as their changes. Each also has its key's hash in the source container, so
// that a lease's owner reads its range's letters with one query, whatever partitions either
// container has, and no split or merge moves a letter.
//
// To support another engine, implement [Documents], which is little more than reading, writing
// and finding documents, and let [NewStore] do the rest. Package letterstest is the conformance
// suite.
package letters

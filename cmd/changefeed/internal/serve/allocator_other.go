//go:build !cgo || !linux

package serve

// returnLargeBlocks does nothing: glibc does not manage the store's memory.
func returnLargeBlocks() {}

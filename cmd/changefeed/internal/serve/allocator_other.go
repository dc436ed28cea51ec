//go:build !cgo || !linux

package serve

// returnLargeBlocks does nothing: the store's memory is Go's, or another allocator's than glibc's.
func returnLargeBlocks() {}

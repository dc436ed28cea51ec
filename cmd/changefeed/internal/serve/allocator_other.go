//go:build !cgo || !linux

package serve

// returnLargeBlocks does nothing here, because this build does not use glibc.
func returnLargeBlocks() {}

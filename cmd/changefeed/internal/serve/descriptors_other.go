//go:build !unix

package serve

// descriptorLimit returns how many files the process may have open; 0: it is not known.
func descriptorLimit() int { return 0 }

//go:build !unix

package serve

// descriptorLimit returns 0, because the limit of open files is unknown on this system.
func descriptorLimit() int { return 0 }

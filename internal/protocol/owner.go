package protocol

import "fmt"

// NewOwner returns the owner text of one run of a host: the instance name, "/" and 8
// lower-case hexadecimal digits. The caller draws run at random, once per run. So an
// equal owner text proves that a lease belongs to this run, even if two hosts have the
// same name.
func NewOwner(instance string, run uint32) string {
	return fmt.Sprintf("%s/%08x", instance, run)
}

const ownerSuffix = 1 + 8 // the length of "/" and the eight digits

// Ours reports whether owner is the owner text of a host of this implementation. Such a
// host hands over a lease that another host wants. Any other owner is foreign.
func Ours(owner string) bool {
	at := len(owner) - ownerSuffix
	if at < 0 || owner[at] != '/' {
		return false
	}
	for _, c := range []byte(owner[at+1:]) {
		if (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// Instance returns owner without the suffix of the run, for display.
func Instance(owner string) string {
	if Ours(owner) {
		return owner[:len(owner)-ownerSuffix]
	}
	return owner
}

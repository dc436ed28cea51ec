package balance

// entry is an element of a queue. index is the index of a lease in the listing, or the
// number of a host. rank determines the order of the entries.
type entry struct {
	rank  uint64
	index int32
}

func (e entry) before(o entry) bool {
	return e.rank < o.rank || e.rank == o.rank && e.index < o.index
}

// queue is a binary heap of entries. The entry with the lowest rank is on top.
type queue []entry

func (h *queue) push(e entry) {
	*h = append(*h, e)
	s := *h
	for i := len(s) - 1; i > 0; {
		up := (i - 1) / 2
		if !s[i].before(s[up]) {
			break
		}
		s[i], s[up] = s[up], s[i]
		i = up
	}
}

func (h queue) init() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.down(i)
	}
}

// top drops entries until the first one is valid. It returns that entry and leaves it in
// the heap.
func (h *queue) top(valid func(entry) bool) (entry, bool) {
	for len(*h) > 0 {
		s := *h
		if valid(s[0]) {
			return s[0], true
		}
		last := len(s) - 1
		s[0] = s[last]
		*h = s[:last]
		(*h).down(0)
	}
	return entry{}, false
}

func (h queue) down(i int) {
	for {
		least := i
		for c := 2*i + 1; c <= 2*i+2 && c < len(h); c++ {
			if h[c].before(h[least]) {
				least = c
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}

// rank returns the rank of a lease or host for a host. The order differs between hosts
// and is the same on every run. It is FNV-1a over both texts and the finaliser of
// MurmurHash3, because FNV alone ranks similar texts alike.
func rank(host, what string) uint64 {
	const offset, prime = 14695981039346656037, 1099511628211
	h := uint64(offset)
	for i := range len(host) {
		h = (h ^ uint64(host[i])) * prime
	}
	h = (h ^ 0xff) * prime // no text contains this byte, so "a"+"bc" differs from "ab"+"c"
	for i := range len(what) {
		h = (h ^ uint64(what[i])) * prime
	}
	h = (h ^ h>>33) * 0xff51afd7ed558ccd
	h = (h ^ h>>33) * 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}

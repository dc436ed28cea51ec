package changefeed

// laneHeap is a heap of lanes for package container/heap.
type laneHeap struct {
	lanes  []*lane
	before func(a, b *lane) bool
}

// byOrder puts the lane first whose first batch begins in the earliest page.
func byOrder(a, b *lane) bool {
	x, y := a.queue[0], b.queue[0]
	return x.first < y.first || x.first == y.first && x.order < y.order
}

func byDue(a, b *lane) bool {
	return a.due < b.due || a.due == b.due && byOrder(a, b)
}

func (h *laneHeap) Len() int           { return len(h.lanes) }
func (h *laneHeap) Less(i, j int) bool { return h.before(h.lanes[i], h.lanes[j]) }
func (h *laneHeap) Swap(i, j int)      { h.lanes[i], h.lanes[j] = h.lanes[j], h.lanes[i] }

func (h *laneHeap) Push(x any) {
	if l, is := x.(*lane); is {
		h.lanes = append(h.lanes, l)
	}
}

func (h *laneHeap) Pop() any {
	last := len(h.lanes) - 1
	l := h.lanes[last]
	h.lanes[last] = nil
	h.lanes = h.lanes[:last]
	return l
}

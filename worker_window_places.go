package changefeed

// This file counts the batches that were handed out. A batch has one of Config.Concurrency places
// while the handler works on it, and none while it only waits: for a checkpoint, or for the container
// for letters.

// maxWriting is how many batches of a lease may wait for the container for letters at a time. When it
// does not answer, the other keys go on until there are so many.
const maxWriting = 64

// hasPlace reports whether the handler may be called with one more batch.
func (q *window) hasPlace() bool { return q.busy < q.w.cfg.Concurrency && q.writing < maxWriting }

// lend gives the place of batch b to another one while its handler waits for a checkpoint, because
// what the checkpoint waits for may be a change that was not delivered yet. takeBack takes it back
// when the handler goes on, and mayResume reports whether there is a place for it.
func (q *window) lend(b *queuedBatch) {
	if b.lane.busy && b.lane.queue[0] == b && !b.lent {
		b.lent = true
		q.busy--
	}
}

func (q *window) takeBack(b *queuedBatch) {
	if b.lent {
		b.lent = false
		q.busy++
	}
}

func (q *window) mayResume() bool { return q.busy < q.w.cfg.Concurrency && !q.isAlone() }

// await gives the place of a batch that waits for the container for letters to another one, and
// answered takes it back for batch b.
func (q *window) await() {
	q.busy--
	q.writing++
}

func (q *window) answered(b *queuedBatch) {
	q.busy++
	q.writing--
	q.takeBack(b)
}

// isIdle reports whether no batch was handed out, except those that wait for a checkpoint.
func (q *window) isIdle() bool { return q.busy+q.writing == 0 }

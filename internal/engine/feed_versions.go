package engine

import (
	"encoding/binary"

	"github.com/changefeed-go/changefeed/feed"
)

// The versions log of a container with a retention: every version and delete,
// each with its previous image, beside the log that keeps the documents. A
// versions log entry stands by itself; to look the previous image up while reading
// would take nine tenths of the speed.

// versionHeaderSize is what stands before the images: op u8, expired u8, ts u64,
// previous LSN u64, length of the current image u32.
const versionHeaderSize = 22

// versionEntry is an entry of the versions log, its images sharing its memory.
type versionEntry struct {
	op          feed.Op
	expired     bool
	ts          int64
	previousLSN int64
	// images are the current image and, behind it, the previous one.
	images  []byte
	current int
}

func decodeVersion(b []byte) (v versionEntry, err error) {
	if len(b) < versionHeaderSize {
		return v, corrupt("an entry of a versions log has %d bytes", len(b))
	}
	v.op, v.expired = feed.Op(b[0]), b[1] != 0
	v.ts = int64(binary.BigEndian.Uint64(b[2:]))
	v.previousLSN = int64(binary.BigEndian.Uint64(b[10:]))
	v.current = int(binary.BigEndian.Uint32(b[18:]))
	v.images = b[versionHeaderSize:]
	if v.current > len(v.images) {
		return v, corrupt("an entry of a versions log has %d bytes and an image of %d", len(b), v.current)
	}
	return v, nil
}

// putVersion writes an effect to the versions log.
func (t *transaction) putVersion(e *effect, segment uint32) error {
	op, current := feed.Create, 0
	if e.old.exists {
		op = feed.Replace
	}
	if e.remove {
		op = feed.Delete
	} else {
		current = t.l.c.tail.storedSize(e.body, e.stamp)
	}
	d := t.batch.SetDeferred(logKeySize+len(e.op.point), versionHeaderSize+current+len(e.previous))
	appendLogKey(d.Key[:0], spaceVersions, t.l.c.number, segment, e.stamp.lsn, e.stamp.ordinal)
	copy(d.Key[logKeySize:], e.op.point)
	d.Value[0], d.Value[1] = byte(op), 0
	if e.expired {
		d.Value[1] = 1
	}
	binary.BigEndian.PutUint64(d.Value[2:], uint64(e.stamp.ts))
	binary.BigEndian.PutUint64(d.Value[10:], uint64(e.old.lsn))
	binary.BigEndian.PutUint32(d.Value[18:], uint32(current))
	if current > 0 {
		t.l.c.tail.appendStored(d.Value[:versionHeaderSize], e.body, e.stamp)
	}
	copy(d.Value[versionHeaderSize+current:], e.previous)
	t.db.busy.note(d.Key, len(d.Value))
	return d.Finish()
}

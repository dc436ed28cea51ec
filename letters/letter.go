package letters

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/feed"
)

// State is what a letter waits for.
type State string

const (
	// Dead is a change that the handler could not process.
	Dead State = "dead"
	// Parked is a change that the handler never got, because an earlier change of its key is
	// a letter.
	Parked State = "parked"
	// Redriving is a letter that is to be handed to the handler again.
	Redriving State = "redriving"
)

// Letter is one change that waits in a letters container, with the reason. The writer of a new
// letter leaves the fields up to Container zero, because [Store].Put sets them.
type Letter struct {
	// ID is a hash over the change's container, processor, key, item, LSN and Place, so that a
	// change that is put twice is one letter.
	ID string
	// Group names the letters that belong to one source key; see [Key.Group].
	Group string
	// Sequence is the letter's place within its key, and is compared as text.
	Sequence string
	// ETag changes whenever the letter is written.
	ETag string
	// Parts is how many further documents hold Current and Previous, or 0 if the letter's
	// own document does.
	Parts int

	// Processor and Source say whose letter it is, and Database and Container are the
	// source's names, as far as the writer knew them.
	Processor           string
	Source              feed.ContainerID
	Database, Container string

	// PartitionKey is the item's key in the source, or nil if nobody could read it.
	PartitionKey feed.PartitionKey
	// Hash is PartitionKey's effective partition key in the source, written like a bound of
	// [feed.Range]. Empty only if there is no PartitionKey.
	Hash string
	// ItemID is the item's id.
	ItemID string
	// LSN is the change's.
	LSN int64
	// Place tells several changes to one item in one transaction apart: how many precede
	// this one. That is nearly always 0, and must be the same each time the change is delivered.
	Place int
	// Index orders the letters from one transaction: how many of its changes were delivered
	// before this one. Unlike Place it need not be the same at the next delivery, because a
	// change feed leaves out what was overwritten meanwhile.
	Index int
	// Time is when the item was written, in UTC.
	Time time.Time
	// Operation and Expired are the change's.
	Operation feed.Op
	Expired   bool
	// Current and Previous are the item after and before the change. [Store].Read leaves
	// both out; Get returns them.
	Current, Previous json.RawMessage

	// State is what the letter waits for.
	State State
	// Error is the handler's last error as text, and Stack its goroutine's stack if it panicked.
	// Only about the first 8 KiB of each are stored. A parked letter has none,
	// because no handler got it. Read leaves Stack out.
	Error, Stack string
	// Attempts is how often the handler failed with the change alone, or with its transaction.
	Attempts int
	// Host is the host that wrote the letter last, and Lease its lease's token.
	Host, Lease string
	// First and Last are when the handler first and last failed, or for a parked letter when
	// it was written, in UTC.
	First, Last time.Time
}

// Change returns the change that the letter holds, as a source delivers it.
func (l Letter) Change() feed.Change {
	c := feed.Change{Op: l.Operation, Expired: l.Expired, LSN: l.LSN, Time: l.Time, Current: l.Current, Previous: l.Previous}
	if c.Op == feed.Delete {
		c.DeletedID, c.DeletedKey = l.ItemID, l.PartitionKey
	}
	return c
}

// Key says whose letters a [Store] holds.
type Key struct {
	// Processor is the processor's name.
	Processor string
	// Source identifies the monitored container. Without its RID, the Store has every
	// processor's and source's letters, and can read, update and delete them, but not put any.
	Source feed.ContainerID
	// Database and Container are the source's names, which letters show to people. They
	// choose nothing.
	Database, Container string
}

// all reports whether the key means every letter.
func (k Key) all() bool { return k.Source.RID == "" }

// Group returns the name that one source key's letters have in common, which is their partition
// key in the letters container. Nothing but the processor, the source and the key decides it.
func (k Key) Group(key feed.PartitionKey) string {
	return strings.Join([]string{k.Processor, k.Source.RID, digest(k.Source.Account, k.Source.RID, k.Processor, key.String())}, ":")
}

// digest returns a hash of texts, of 128 bits in hexadecimal. No two lists of texts are hashed
// as the same bytes.
func digest(texts ...string) string {
	h := sha256.New()
	for _, text := range texts {
		h.Write([]byte(strconv.Itoa(len(text)) + ":" + text)) // a hash never returns an error
	}
	return hex.EncodeToString(h.Sum(nil)[:16])
}

var (
	errAll       = errors.New("the store was opened for all processors; open it with the key of one to put letters")
	errNoLSN     = errors.New("its LSN is not positive")
	errNoHash    = errors.New("it has a partition key and no hash of it")
	errPlace     = errors.New("its place or its index is negative")
	errNoState   = errors.New("its state is not dead, parked or redriving")
	errNoContent = errors.New("it has no item, neither a current nor a previous one, and is no delete")
)

// letter returns l as it is stored: with the key's fields, and those that are computed. The
// error says what is wrong with l.
func (k Key) letter(l Letter) (Letter, error) {
	var problem error
	switch {
	case k.all():
		problem = errAll
	case l.LSN <= 0:
		problem = errNoLSN
	case l.PartitionKey != nil && l.Hash == "":
		problem = errNoHash
	case l.Place < 0 || l.Index < 0:
		problem = errPlace
	case !l.State.valid():
		problem = errNoState
	case l.Current == nil && l.Previous == nil && l.Operation != feed.Delete:
		problem = errNoContent
	}
	if problem != nil {
		return Letter{}, fmt.Errorf("letter of item %q with LSN %d: %w", l.ItemID, l.LSN, problem)
	}
	l.Processor, l.Source, l.Database, l.Container = k.Processor, k.Source, k.Database, k.Container
	l.Group = k.Group(l.PartitionKey)
	l.ID = digest(k.Source.Account, k.Source.RID, k.Processor, l.PartitionKey.String(), l.ItemID, strconv.FormatInt(l.LSN, 10), strconv.Itoa(l.Place))
	l.Sequence = fmt.Sprintf("%019d-%010d-%010d", l.LSN, l.Index, l.Place)
	l.Error, l.Stack = cut(l.Error), cut(l.Stack)
	return l, nil
}

// valid reports whether s is one of the states.
func (s State) valid() bool { return s == Dead || s == Parked || s == Redriving }

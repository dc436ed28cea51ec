package letters

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
)

// Container is a letters container, which several processors may share.
type Container interface {
	// Open returns one processor's letters, or a *[ContainerError] if the container cannot
	// hold letters. If the Store is a [feed.Identifier], the processor refuses it when it is
	// in the monitored container or in the one with the leases; otherwise nobody checks that.
	Open(ctx context.Context, k Key) (Store, error)
}

// Store holds one processor's letters. Its methods are safe for concurrent use. They return
// errors that wrap a *[feed.ThrottledError] if a request was not executed, and
// [feed.ErrMisconfigured] if waiting does not help. After any other error of a write, nobody
// knows whether it was applied. Every write may be repeated: a second Put and a second Delete
// succeed, and a second Update returns a *[ConflictError] that has what the first one stored.
//
// A Store may have one more method, Charged() float64, the total charge of its requests in
// request units.
type Store interface {
	// Put writes a new letter. If a letter with its ID exists, Put succeeds and changes
	// nothing, whatever became of that letter meanwhile. If a letter is too large for
	// one document, Put writes it in parts, and it exists once the last one is written.
	Put(ctx context.Context, l Letter) error
	// Read returns the letters that q selects, sorted by Hash, then Group, then Sequence,
	// without Current, Previous and Stack. All are read before the first is returned.
	// An error ends the sequence.
	Read(ctx context.Context, q Query) iter.Seq2[Letter, error]
	// Get returns the whole letter with a Group and an ID, or an error that wraps
	// [feed.ErrNotFound].
	Get(ctx context.Context, group, id string) (Letter, error)
	// Update stores a letter that Read or Get returned, but only its State, Error, Stack,
	// Attempts, Host, Lease and Last; all else remains as it is stored. The result has the new
	// ETag. The error is a *[ConflictError] if the letter's ETag is no longer l.ETag, and wraps
	// [feed.ErrNotFound] if there is no such letter.
	Update(ctx context.Context, l Letter) (Letter, error)
	// Delete deletes a letter that Read or Get returned. The error is a *[ConflictError] if
	// its ETag is no longer l.ETag. A letter that does not exist counts as deleted. Without
	// an ETag, an update or a delete applies to whatever is stored.
	Delete(ctx context.Context, l Letter) error
	// Session merges a token that another Store's Session has returned, perhaps in another
	// process, into this Store's own, and returns the result. From then on this Store sees all
	// that both have written or seen. An empty token merges nothing. The result is empty if
	// the engine has no session tokens, because every read sees every write. Without a token,
	// letters that other processes have just written may be missing. Session sends no request.
	Session(token string) string
}

// Query selects letters. The zero value selects all that the Store has.
type Query struct {
	// Range selects the letters whose Hash it holds. If zero, every hash is in it.
	Range feed.Range
	// Group, if not empty, selects one source key's letters, and ID those with one id.
	Group, ID string
}

// ConflictError reports that a letter was changed after it was read.
type ConflictError struct {
	// Current is the stored letter, as [Store].Get returns it.
	Current Letter
}

func (e *ConflictError) Error() string {
	return fmt.Sprintf("letter %s was changed by another write; it is %s", e.Current.ID, e.Current.State)
}

// ContainerError reports that a container cannot hold letters. It wraps
// [feed.ErrMisconfigured].
type ContainerError struct {
	// Found describes the container's state, and Remedy what to do.
	Found, Remedy string
}

func (e *ContainerError) Error() string { return e.Found + "; " + e.Remedy }

// Unwrap returns [feed.ErrMisconfigured].
func (e *ContainerError) Unwrap() error { return feed.ErrMisconfigured }

// KeyPath is the partition key's path that every letters container has.
const KeyPath = "/pk"

// CheckContainer returns a *[ContainerError] if a container with these properties cannot hold
// letters. name is for the error, and defaultTTL is in seconds: 0 without time to live, -1 if
// only items with a ttl of their own expire.
func CheckContainer(name string, keyPaths []string, defaultTTL int) error {
	if !slices.Equal(keyPaths, []string{KeyPath}) {
		return &ContainerError{
			Found:  fmt.Sprintf("the container %s is partitioned by %s, and letters are partitioned by %s", name, cmp.Or(strings.Join(keyPaths, ", "), "nothing"), KeyPath),
			Remedy: "use a container of its own for the letters, partitioned by " + KeyPath,
		}
	}
	if defaultTTL > 0 {
		return &ContainerError{
			Found:  fmt.Sprintf("the container %s lets items expire after %d s, and a letter that expires is a lost change", name, defaultTTL),
			Remedy: "remove its default time to live, or use a container of its own for the letters",
		}
	}
	return nil
}

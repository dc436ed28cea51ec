// Package hook sets the parts of a processor that only tests control, which is why
// changefeed.Config has no fields for them. Package changefeed assigns the functions. The
// argument config is a *changefeed.Config, and batch a *changefeed.Batch.
package hook

import (
	"context"
	"time"
)

// SetSeed sets the seed of a processor. It determines the processor's jitter and the
// suffix of its owner text. Two runs with the same Config.Instance must not share a seed.
// A seed of zero is random.
var SetSeed func(config any, seed uint64)

// SetClock makes a processor read its clocks by calling now, which returns the monotonic
// clock and the wall clock. The processor calls now concurrently. Its timers still use the
// time of package time.
var SetClock func(config any, now func() (mono time.Duration, wall time.Time))

// SetConcurrency sets the Concurrency of a processor that has an Observer, which New refuses
// otherwise. The observer's Handle is then called several times at a time.
var SetConcurrency func(config any, n int)

// SetCheckpoint makes a batch call checkpoint when it is checkpointed.
var SetCheckpoint func(batch any, checkpoint func(ctx context.Context) error)

// FailedChanges returns the indexes of the changes that were not handled when a handler got
// so many changes and returned err, as the processor judges it. A simulation of handlers
// needs it.
var FailedChanges func(err error, changes int) []int

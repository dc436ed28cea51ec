package changefeed

import (
	"log/slog"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
)

// Config says what a [Processor] reads, where its leases are, and what it does
// with the changes. Zero is the default of every field; -1 switches off what
// can be switched off.
type Config struct {
	// Processor names the deployment unit: hosts of the same name share the
	// work, processors of different names each get every change. Required.
	Processor string
	// Instance names this host in leases and messages. Run adds a random suffix,
	// so two hosts of one name are two hosts. Default: host name and process id.
	Instance string

	// Source is the monitored container's change feed. Required.
	Source feed.Source
	// Leases is the lease container. Required.
	Leases lease.Container

	// Handler gets the changes of all leases. Either it or Observer is required.
	Handler Handler
	// Observer makes one observer per lease instead.
	Observer func(lease.Lease) (Observer, error)

	// Start is where to start when the leases are made for the first time;
	// afterwards it is not looked at. Default: now.
	Start feed.Start
	// Mode is latest version (default) or all versions and deletes.
	Mode feed.Mode
	// Range limits the processor to a part of the container; the same on all
	// its hosts. Default: everything.
	Range feed.Range
	// MaxItems is how many changes a page should hold. Default: 100.
	MaxItems int
	// PollInterval is the pause after a read that found nothing. Default: 5 s, shorter while changes come.
	PollInterval time.Duration
	// ReadAhead is how many bytes per lease may be read before the handler has
	// taken them. Default: 4 MiB; -1: none, a page is read when the handler is free.
	ReadAhead int

	// AcquireInterval is the time between two looks at the leases, +- 10 %. Default: 17 s.
	AcquireInterval time.Duration
	// RenewInterval is the time after which an owned lease is written again. Default: 13 s.
	RenewInterval time.Duration
	// ExpirationInterval is how long a lease stays with a host that no longer
	// writes it; the same on all hosts. Default: 60 s.
	ExpirationInterval time.Duration
	// RequestTimeout bounds one request to the source or to the lease store. Default: 10 s.
	RequestTimeout time.Duration
	// DrainTimeout bounds how long a stop waits for handlers. Default: 30 s.
	DrainTimeout time.Duration
	// MinLeases and MaxLeases bound how many leases this host wants. Default: no bound.
	MinLeases, MaxLeases int
	// DiscardLeases starts over: existing leases are deleted when Run begins.
	DiscardLeases bool

	// Checkpoint says when positions are written. Default: after every batch.
	Checkpoint Checkpointing
	// Filter passes only the changes for which it returns true to the handler;
	// checkpoints advance over the others.
	Filter func(feed.Change) bool
	// OnHistoryLost chooses to go on at the oldest position (return true) when the feed no
	// longer reaches back to the lease's. Default: never; the lease is kept, the
	// read retried, and an error notified.
	OnHistoryLost func(lease.Lease, *feed.HistoryLostError) bool
	// Notify is told of leases acquired and released, and of errors. It is called from
	// several goroutines and must return soon.
	Notify func(Notification)
	// Logger gets what happens. Default: none.
	Logger *slog.Logger
	// Seed makes jitter reproducible; 0: random.
	Seed uint64
}

// Checkpointing says when positions are written.
type Checkpointing struct {
	// Manual leaves it to the handler: [Batch.Checkpoint].
	Manual bool
	// Changes and Interval: at most every that many changes, and at most that often;
	// whichever is reached first. Both 0: after every batch.
	Changes  int
	Interval time.Duration
}

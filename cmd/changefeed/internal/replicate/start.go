package replicate

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/internal/follow"
)

const (
	// minRetryDelay and maxRetryDelay limit the time between two attempts to start.
	minRetryDelay = 500 * time.Millisecond
	maxRetryDelay = 15 * time.Second
	// undoTime is the time limit for deleting the containers that a failed start has
	// created.
	undoTime = 10 * time.Second
)

// made records what the start of a run has created. All attempts of the start share one
// value.
type made struct {
	// database, target and leases report whether this start has created them.
	database, target, leases bool
	// narrow reports whether the new target may have fewer partitions than the source.
	narrow bool
}

// begin opens the replication. It reports temporary errors, such as a broken connection,
// and tries again. After any other error it deletes what this start has created, and
// returns the error.
func begin(ctx context.Context, cfg Config) (*replication, *state, error) {
	cfg.made = &made{}
	failures := newErrorLog(&progress{out: cfg.Out})
	for delay := minRetryDelay; ; delay = min(2*delay, maxRetryDelay) {
		r, st, err := open(ctx, cfg, failures)
		switch {
		case err == nil:
			failures.Worked("")
			return r, st, nil
		case ctx.Err() != nil && (errors.Is(err, ctx.Err()) || heals(err)):
			return nil, nil, &UnfinishedError{errors.Join(ctx.Err(), cfg.undo(ctx))}
		case !heals(err):
			return nil, nil, errors.Join(err, cfg.undo(ctx))
		}
		if connect.Throttled(err) && delay == minRetryDelay { // the lines about failures say so only after a minute
			failures.progress.say("throttled at the start; retrying: %s", connect.Text(err))
		}
		failures.Failed("", err)
		if err := follow.Sleep(ctx, delay); err != nil {
			return nil, nil, &UnfinishedError{errors.Join(err, cfg.undo(ctx))}
		}
	}
}

// heals reports whether err is temporary. If the address of a refused connection is
// wrong, the line that reports the retry says where it looked.
func heals(err error) bool {
	_, config := errors.AsType[*ConfigError](err)
	return !config && !fatal(err) && connect.Temporary(err)
}

// undo deletes the containers and the database that this start has created. It keeps
// everything if the replication has a state already. It keeps a container that has
// documents and a database that has containers, because another process uses them.
func (cfg Config) undo(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), undoTime)
	defer cancel()
	if m := cfg.made; !m.database && !m.target && !m.leases {
		return nil
	}
	if st, err := cfg.states().read(ctx); err == nil && st != nil {
		return nil // a later run or another process resumes the replication
	}
	var errs []error
	for _, c := range []struct {
		made bool
		at   Container
	}{{cfg.made.leases, cfg.Leases}, {cfg.made.target, cfg.To}} {
		if !c.made {
			continue
		}
		client := c.at.documents()
		empty, err := isEmpty(ctx, client)
		if err == nil && empty {
			err = client.Delete(ctx)
		}
		errs = append(errs, left("container "+c.at.String(), err))
	}
	if cfg.made.database {
		errs = append(errs, left("database "+cfg.To.Database, cfg.undoDatabase(ctx)))
	}
	return errors.Join(errs...)
}

// undoDatabase deletes the target's database if it has no container.
func (cfg Config) undoDatabase(ctx context.Context) error {
	database := cfg.To.Account.Documents().Database(cfg.To.Database)
	containers, err := database.Containers(ctx)
	if err != nil || len(containers) > 0 {
		return err
	}
	return database.Delete(ctx)
}

// left returns an error that names an object that could not be deleted. It returns nil if
// the object was deleted or did not exist.
func left(name string, err error) error {
	if err == nil || connect.Status(err) == http.StatusNotFound {
		return nil
	}
	return fmt.Errorf("%s was created but could not be deleted: %w", name, err)
}

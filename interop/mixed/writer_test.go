package mixed

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/changefeed-go/changefeed/interop/internal/harness"
)

const (
	// keys is the number of partition keys that a scene uses. Each partition has several.
	keys = 24
	// hot is the prefix of the ids of items that are written repeatedly.
	hot = "hot-"
	// writePause is the time between two writes of a writer. It results in about a
	// hundred writes per second.
	writePause = 8 * time.Millisecond
)

// writer writes items of all partition keys in turns. Most are new items. One item of
// each key is replaced again and again, and sometimes an item is deleted.
type writer struct {
	client *harness.Client
	at     harness.Container
	to     *deliveries

	next int64
	hot  map[string]bool

	stopping chan struct{}
	running  sync.WaitGroup
	failed   error // the error of the last write; valid after running has ended
}

// write makes count changes. It must not be called while the writer runs.
func (w *writer) write(ctx context.Context, count int) error {
	for range count {
		if err := w.one(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (w *writer) one(ctx context.Context) error {
	n := w.next
	w.next++
	key, round := fmt.Sprintf("k%d", n%keys), n/keys
	id, operation := fmt.Sprintf("i%d", n), "create"
	if round%3 == 1 {
		id = hot + key
		if w.hot[id] {
			operation = "replace"
		}
		w.hot[id] = true
	}
	if err := w.client.Upsert(ctx, w.at, key, fmt.Sprintf(`{"id":%q,"pk":%q,"n":%d}`, id, key, n)); err != nil {
		return err
	}
	w.to.wrote(written{operation, key, id, n})
	if round%6 != 2 {
		return nil
	}
	if err := w.client.Delete(ctx, w.at, key, id); err != nil {
		return err
	}
	w.to.wrote(written{"delete", key, id, n})
	return nil
}

// start makes changes in the background until stop is called.
func (w *writer) start(ctx context.Context) {
	w.stopping = make(chan struct{})
	w.running.Go(func() {
		pause := time.NewTicker(writePause)
		defer pause.Stop()
		for {
			if w.failed = w.one(ctx); w.failed != nil {
				return
			}
			select {
			case <-pause.C:
			case <-w.stopping:
				return
			}
		}
	})
}

// stop stops the writer and waits for the last acknowledgement. It returns the error of a
// write, if any. It does nothing if the writer does not run.
func (w *writer) stop() error {
	if w.stopping != nil {
		close(w.stopping)
		w.running.Wait()
		w.stopping = nil
	}
	return w.failed
}

package azcosmos

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// If these environment variables are set, the test binary acts as a reader. They contain
// its continuation, and the feed to read.
const (
	childToken     = "CHANGEFEED_CHILD_TOKEN"
	childDatabase  = "CHANGEFEED_CHILD_DATABASE"
	childContainer = "CHANGEFEED_CHILD_CONTAINER"
)

// child is the main function of a reader process. It has only a continuation, from which
// it reads the new changes and prints them. It is not a test, because the output of a
// test contains other lines.
func child(token string) int {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	out := json.NewEncoder(os.Stdout)
	err := func() error {
		c, err := newClient(env.Key, azcosmos.ClientOptions{})
		if err != nil {
			return err
		}
		defer c.Close()
		container, err := c.NewContainer(os.Getenv(childDatabase), os.Getenv(childContainer))
		if err != nil {
			return err
		}
		for {
			page, err := container.ReadChangeFeed(ctx, &azcosmos.ChangeFeedOptions{Continuation: &token, MaxItemCount: 5})
			if err != nil || len(page.Items) == 0 {
				return err
			}
			token = page.ContinuationToken
			for _, b := range page.Items {
				if err := out.Encode(json.RawMessage(b)); err != nil {
					return err
				}
			}
		}
	}()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// inNewProcess reads the rest of the feed f in a new process, and returns its items.
func inNewProcess(t *testing.T, f *feed) []item {
	t.Helper()
	me, err := os.Executable()
	ok(t, err)
	cmd := exec.CommandContext(t.Context(), me)
	cmd.Env = append(os.Environ(), childToken+"="+*f.options.Continuation,
		childDatabase+"="+databaseOf(f.container), childContainer+"="+f.container.ID())
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	ok(t, err)
	ok(t, cmd.Start())
	var items []item
	for lines := json.NewDecoder(out); lines.More(); {
		var i item
		ok(t, lines.Decode(&i))
		items = append(items, i)
	}
	ok(t, cmd.Wait())
	return items
}

func TestFeedResumesInANewProcess(t *testing.T) {
	env.Scenario(t, "feed-resume", func(t *testing.T) {
		c := container(t)
		upsert(t, c, spread(40, 1)...)
		f := newFeed(t, c, azcosmos.ChangeFeedOptions{FeedRange: everything(), MaxItemCount: 4})
		before := append(f.page(t), f.page(t)...)
		upsert(t, c, item{"late", "key 1", 1}, item{"late", "key 2", 1})
		rest := inNewProcess(t, f)
		equal(t, len(before)+len(rest), 42, "changes of both processes")
		want := append(spread(40, 1), item{"late", "key 1", 1}, item{"late", "key 2", 1})
		same(t, latest(t, append(before, rest...)), latest(t, want))
	})
}

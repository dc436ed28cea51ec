package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// shop creates a store with a container of orders and returns its directory. One of the
// two orders was written twice, and one was deleted.
func shop(t *testing.T, retention time.Duration) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	checkStore(t, dir, func(db *store.DB) {
		ctx := t.Context()
		if _, err := db.CreateDatabase(ctx, storetype.DatabaseProperties{ID: "shop"}); err != nil {
			t.Fatal(err)
		}
		c, err := db.CreateContainer(ctx, "shop", storetype.ContainerProperties{
			ID: "orders", KeyPaths: []string{"/customer"}, Partitions: 3, Retention: retention,
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range []string{
			`{"id":"1","customer":"ada","n":1}`,
			"{\n  \"id\": \"2\",\n  \"customer\": \"bob\"\n}",
			`{"id":"3","customer":"ada"}`,
			`{"id":"1","customer":"ada","n":2}`,
		} {
			if _, err := c.Upsert(ctx, nil, []byte(body), storetype.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Delete(ctx, feed.PartitionKey{"ada"}, "3", storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	})
	return dir
}

func tailOf(dir string, more ...string) []string {
	return append([]string{"tail", "--data", dir, "--database", "shop", "--container", "orders"}, more...)
}

func TestTailPrintsEachDocumentOnALineOfItsOwn(t *testing.T) {
	dir := shop(t, 0)
	code, out, errOut := command(t, tailOf(dir)...)
	if code != exitOK || errOut != "" {
		t.Fatalf("status %d: %s", code, errOut)
	}
	found := map[string]float64{}
	for line := range strings.Lines(out) {
		var doc struct {
			ID  string
			N   float64
			LSN int64 `json:"_lsn"`
		}
		if err := json.Unmarshal([]byte(line), &doc); err != nil || doc.LSN == 0 {
			t.Errorf("%q: %v", line, err)
		}
		found[doc.ID] = doc.N
	}
	if fmt.Sprint(found) != "map[1:2 2:0]" {
		t.Errorf("the feed is %v:\n%s", found, out)
	}
	for from, want := range map[string]int{
		"now": 0, "2001-01-01": 2, time.Now().Add(-time.Hour).Format(time.RFC3339): 2, "after:0": 2,
	} {
		if code, out, errOut := command(t, tailOf(dir, "--from", from)...); code != exitOK || strings.Count(out, "\n") != want {
			t.Errorf("from %s: status %d, want %d lines: %s%s", from, code, want, out, errOut)
		}
	}
}

// The log ends before the position, as after the restore of an older copy. An empty output
// and status 0 would hide that.
func TestTailFailsAfterAPositionThatTheLogHasNotReached(t *testing.T) {
	dir := shop(t, 0)
	code, out, errOut := command(t, tailOf(dir, "--from", "after:99")...)
	if code != exitFailed || out != "" || !strings.Contains(errOut, "no longer holds this position") || !strings.Contains(errOut, "after the end of the feed") {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
}

func TestTailPrintsAllVersionsAndDeletesInTheFormOfTheProtocol(t *testing.T) {
	dir := shop(t, time.Hour)
	code, out, errOut := command(t, tailOf(dir, "--mode", "avad", "--from", "after:0")...)
	if code != exitOK {
		t.Fatalf("status %d: %s", code, errOut)
	}
	var got []string
	for line := range strings.Lines(out) {
		var v struct {
			Current, Previous struct {
				ID string
				N  int
			}
			Metadata struct {
				OperationType string
				LSN           int64
				Crts          int64
				ID            string
				PartitionKey  map[string]string
			}
		}
		if err := json.Unmarshal([]byte(line), &v); err != nil || v.Metadata.LSN == 0 || v.Metadata.Crts == 0 {
			t.Errorf("%q: %v", line, err)
		}
		if v.Current.ID != "2" { // item 2 is in another partition, so its order is not defined
			got = append(got, fmt.Sprint(v.Metadata.OperationType, v.Current.ID, v.Current.N, v.Previous.N, v.Metadata.ID, v.Metadata.PartitionKey["customer"]))
		}
	}
	if want := "create11 0, create30 0, replace12 1, delete0 03ada"; strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
	code, _, errOut = command(t, tailOf(shop(t, 0), "--mode", "avad", "--from", "now")...)
	if code != exitFailed || errOut == "" {
		t.Errorf("a container without all versions: status %d: %s", code, errOut)
	}
}

// `tail` with a saved position prints lines in the mode of that position. It uses --from
// only if there is no position.
func TestTailResumesInTheModeOfItsPosition(t *testing.T) {
	dir, position := shop(t, time.Hour), filepath.Join(t.TempDir(), "position")
	if code, out, errOut := command(t, tailOf(dir, "--mode", "avad", "--from", "after:0", "--position", position)...); code != exitOK || strings.Count(out, "\n") != 5 {
		t.Fatalf("status %d: %s%s", code, out, errOut)
	}
	for round, more := range [][]string{nil, {"--mode", "avad"}} {
		checkStore(t, dir, func(db *store.DB) {
			c, err := db.Container(t.Context(), "shop", "orders")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.Delete(t.Context(), feed.PartitionKey{[]string{"ada", "bob"}[round]}, fmt.Sprint(round+1), storetype.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		})
		code, out, errOut := command(t, tailOf(dir, append(more, "--position", position)...)...)
		if code != exitOK || strings.Count(out, "\n") != 1 || !strings.Contains(out, `"operationType":"delete"`) {
			t.Errorf("%v: status %d: %s%s", more, code, out, errOut)
		}
	}
	for _, c := range []struct{ mode, position string }{{"latest", position}, {"avad", filepath.Join(t.TempDir(), "latest")}} {
		if c.position != position {
			if code, _, errOut := command(t, tailOf(dir, "--position", c.position)...); code != exitOK {
				t.Fatalf("status %d: %s", code, errOut)
			}
		}
		code, out, errOut := command(t, tailOf(dir, "--mode", c.mode, "--from", "now", "--position", c.position)...)
		if code != exitUsage || out != "" || !strings.Contains(errOut, c.position) || !strings.Contains(errOut, "--mode is "+c.mode) {
			t.Errorf("--mode %s: status %d: %s%s", c.mode, code, out, errOut)
		}
	}
}

// If the saved position is damaged or belongs to another container, `tail` fails. Its
// error names the position file and the remedy.
func TestTailNamesAnUnusablePosition(t *testing.T) {
	dir, position := shop(t, 0), filepath.Join(t.TempDir(), "position")
	for want, text := range map[string]string{
		"is empty":           "\n",
		"is damaged":         `{"version":1,"rid":"x"`,
		"belongs to another": `{"version":1,"rid":"other","mode":"latest version","range":{"min":"","max":"FF"},"cursors":[{"min":"","max":"FF","continuation":"\"1\""}]}`,
	} {
		write(t, position, text)
		code, out, errOut := command(t, tailOf(dir, "--from", "now", "--position", position)...)
		if code == exitOK || out != "" || !strings.Contains(errOut, want) || !strings.Contains(errOut, position) || !strings.Contains(errOut, "delete ") {
			t.Errorf("%q: status %d: %s%s", text, code, out, errOut)
		}
		if kept, err := os.ReadFile(position); err != nil || string(kept) != text {
			t.Errorf("the file is %q, %v", kept, err)
		}
	}
}

func TestTailFollowsUntilInterrupted(t *testing.T) {
	dir := shop(t, 0)
	cmd := process(t, tailOf(dir, "--follow")...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := json.NewDecoder(out)
	for range 2 {
		if err := lines.Decode(&struct{}{}); err != nil {
			t.Fatal(err)
		}
	}
	// `tail --follow` keeps the store open. The error of a second process that opens it
	// must name the first one.
	code, _, errOut := command(t, tailOf(dir)...)
	if want := fmt.Sprintf("in use by process %d", cmd.Process.Pid); code != exitFailed || !strings.Contains(errOut, want) {
		t.Errorf("a second tail: status %d, %q, want %q", code, errOut, want)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("interrupted: %v", err)
	}
}

func TestTailListsContainersIfItsOwnIsMissing(t *testing.T) {
	dir := shop(t, 0)
	code, _, errOut := command(t, "tail", "--data", dir, "--database", "shop", "--container", "order")
	if code != exitFailed || !strings.Contains(errOut, "container shop/order does not exist; the existing ones are shop/orders") {
		t.Errorf("status %d: %s", code, errOut)
	}
}

func TestTailMakesNoStoreOfAMistypedDirectory(t *testing.T) {
	dir := t.TempDir()
	code, _, errOut := command(t, tailOf(dir)...)
	if code != exitFailed || !strings.Contains(errOut, dir+" has no store") {
		t.Errorf("status %d: %s", code, errOut)
	}
	if made, err := os.ReadDir(dir); err != nil || len(made) != 0 {
		t.Errorf("it made %v, %v", made, err)
	}
}

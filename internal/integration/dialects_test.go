package integration

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/lease"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestHostsShareLeasesOfJavasDialectsThroughSplitsAndRestarts(t *testing.T) {
	for _, d := range javas {
		t.Run(d.Name(), func(t *testing.T) {
			inBubble(t, d, func(c *counter) {
				a, b := c.run("a"), c.run("b")
				pause(time.Minute)
				c.write(30)
				pause(time.Minute)
				c.split("1")
				c.write(30)
				pause(time.Minute)
				if err := a(); err != nil {
					t.Errorf("a: %v", err)
				}
				c.write(30)
				pause(time.Minute)
				if err := b(); err != nil {
					t.Errorf("b: %v", err)
				}
				c.split("0") // while no host runs
				c.split(lastPartition(t, c.orders))
				c.write(30)
				c.run("c")
				pause(time.Minute)
				c.write(30)
				pause(time.Minute)
				c.wantOnce()
				if n := len(c.tokens()); n != 6 {
					t.Errorf("after three splits of three partitions the leases are %v", c.tokens())
				}
				c.wantForm()
			})
		})
	}
}

func lastPartition(t *testing.T, c *store.Container) string {
	t.Helper()
	partitions, err := c.Partitions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return partitions[len(partitions)-1].ID
}

// wantForm checks that each lease document has exactly the members of the dialect, and
// the given properties.
func (c *counter) wantForm() {
	c.t.Helper()
	want := []string{"ContinuationToken", "LeaseToken", "Owner", "id", "properties", "timestamp"}
	if c.dialect == lease.JavaLatestVersion {
		want = append(want, "feedRange", "version")
		slices.Sort(want)
	}
	for id, text := range c.documents() {
		var members map[string]any
		if err := json.Unmarshal([]byte(text), &members); err != nil {
			c.t.Fatal(err)
		}
		maps.DeleteFunc(members, func(name string, _ any) bool { return strings.HasPrefix(name, "_") })
		if got := slices.Sorted(maps.Keys(members)); strings.Contains(id, "..") && !slices.Equal(got, want) {
			c.t.Errorf("document %s has the members %v; want %v", id, got, want)
		}
	}
}

// Leases of Java's handleChanges have no ranges in their documents. The hosts must not
// spend a request at each listing to find the ranges.
func TestLeasesWithoutRangesCostNoRequestAtRest(t *testing.T) {
	for _, d := range javas {
		t.Run(d.Name(), func(t *testing.T) {
			inBubble(t, d, func(c *counter) {
				c.run("a")
				pause(time.Minute)
				before := c.asked
				pause(time.Hour)
				if n := c.asked - before; n != 0 {
					t.Errorf("in an hour at rest the partitions are requested %d times", n)
				}
				c.split("0")
				c.write(10)
				pause(time.Minute)
				before = c.asked
				pause(time.Hour)
				if n := c.asked - before; n != 0 {
					t.Errorf("in an hour after a split the partitions are requested %d times", n)
				}
				c.wantOnce()
			})
		})
	}
}

func TestMergedPartitionKeepsItsLeasesInJavaLatestVersion(t *testing.T) {
	inBubble(t, lease.JavaLatestVersion, func(c *counter) {
		stop := c.run("a")
		pause(time.Minute)
		c.write(30)
		pause(time.Minute)
		if _, err := c.orders.Merge(t.Context(), "0", "1"); err != nil {
			t.Fatal(err)
		}
		c.write(30)
		pause(time.Minute)
		if err := stop(); err != nil {
			t.Error(err)
		}
		c.write(30)
		c.run("b")
		pause(time.Minute)
		c.wantOnce()
		if n := len(c.tokens()); n != 3 {
			t.Errorf("the leases are %v; want the 3 old ranges", c.tokens())
		}
	})
}

func TestAMergeIsRefusedInHandleChangesAndNothingIsCreated(t *testing.T) {
	inBubble(t, lease.JavaHandleChanges, func(c *counter) {
		stop := c.run("a")
		pause(time.Minute)
		c.write(30)
		pause(time.Minute)
		if _, err := c.orders.Merge(t.Context(), "0", "1"); err != nil {
			t.Fatal(err)
		}
		for range 2 { // the second host finds leases whose partitions are gone
			c.write(30)
			pause(time.Minute)
			if text := c.notified(); !strings.Contains(text, "merged") || !strings.Contains(text, "java-latest-version") {
				t.Errorf("the merge is notified as %q; want the merge and the remedy", text)
			}
			if tokens := c.tokens(); !slices.Equal(tokens, []string{"0", "1", "2"}) {
				t.Errorf("the leases are %v", tokens)
			}
			if err := stop(); err != nil {
				t.Error(err)
			}
			c.mu.Lock()
			c.errs = nil
			c.mu.Unlock()
			stop = c.run("b")
		}
		// The partition that was not merged continues.
		went := 0
		for i := 31; i <= c.written; i++ {
			went += c.counts[fmt.Sprintf("order-%d", i)]
		}
		if went == 0 || went == c.written-30 {
			t.Errorf("%d of %d orders were delivered after the merge; want those of the third partition", went, c.written-30)
		}
	})
}

// A start time survives checkpoints and restarts in Java's second dialect, whose
// documents store it beside the position. The other dialects drop it at the first
// checkpoint.
func TestAStartTimeGoesAlongInJavasSecondDialect(t *testing.T) {
	for _, d := range []lease.Dialect{lease.DotNet, lease.JavaHandleChanges, lease.JavaLatestVersion} {
		t.Run(d.Name(), func(t *testing.T) {
			inBubble(t, d, func(c *counter) {
				c.write(10)
				pause(10 * time.Second)
				at := time.Now().UTC().Truncate(time.Second)
				c.start = feed.At(at)
				c.write(10)
				stop := c.run("a")
				pause(time.Minute)
				if err := stop(); err != nil {
					t.Fatal(err)
				}
				c.start = feed.Beginning() // the lease keeps its own start, whatever the configuration says
				first := len(c.reads)
				c.run("b")
				pause(time.Minute)
				c.write(10)
				pause(time.Minute)
				want := time.Time{}
				if d == lease.JavaLatestVersion {
					want = at
				}
				later := c.reads[first:]
				for _, r := range later {
					if r.From.Kind() != feed.StartContinuation || !r.From.Since().Equal(want) {
						t.Fatalf("after a restart a read starts at %s since %s; want since %s", r.From, r.From.Since(), want)
					}
				}
				if len(later) == 0 || c.counts["order-1"] != 0 || c.counts["order-11"] != 1 || c.counts["order-21"] != 1 {
					t.Errorf("%d reads after the restart; delivered %v", len(later), c.counts)
				}
			})
		})
	}
}

func TestAStartRefusesLeasesOfAnotherDialectAndNotAMarker(t *testing.T) {
	all := []lease.Dialect{lease.DotNet, lease.JavaHandleChanges, lease.JavaLatestVersion}
	for _, made := range all {
		for _, d := range all {
			if made == d {
				continue
			}
			t.Run(made.Name()+" then "+d.Name(), func(t *testing.T) {
				inBubble(t, made, func(c *counter) {
					c.write(10)
					stop := c.run("a")
					pause(time.Minute)
					if err := stop(); err != nil {
						t.Fatal(err)
					}
					before := c.documents()
					c.dialect, c.discard = d, true
					if err := ends(t, c, "z"); !isDialectError(err) {
						t.Errorf("Run with DiscardLeases: %v", err)
					}
					c.discard = false
					err := ends(t, c, "b")
					refusal, ok := errors.AsType[*lease.DialectError](err)
					if !ok || !strings.Contains(refusal.Found, made.String()) || !strings.Contains(refusal.Remedy, made.Name()) ||
						!strings.Contains(refusal.Remedy, "leases convert") {
						t.Errorf("Run: %v; want it to name the dialect and the remedy", err)
					}
					if after := c.documents(); !maps.Equal(before, after) {
						t.Errorf("the refused host has changed the documents from\n%v to\n%v", before, after)
					}
					// Once only the marker is left, the host starts.
					for id := range before {
						if strings.Contains(id, "..") {
							if _, err := c.leases.Delete(t.Context(), feed.PartitionKey{id}, id, storetype.WriteOptions{}); err != nil {
								t.Fatal(err)
							}
						}
					}
					if err := ends(t, c, "c"); err != nil {
						t.Errorf("Run with only a marker: %v", err)
					}
				})
			})
		}
	}
}

func isDialectError(err error) bool {
	_, ok := errors.AsType[*lease.DialectError](err)
	return ok
}

// A Java host upgrades the leases: it creates leases of the second dialect and deletes
// those of the first one, but not their marker. Our hosts then stop, and recreate no
// lease.
func TestUpgradeOfHandleChangesStopsTheHostsAndRecreatesNothing(t *testing.T) {
	inBubble(t, lease.JavaHandleChanges, func(c *counter) {
		c.write(10)
		stop := c.run("a")
		pause(time.Minute)
		id, err := c.Identity(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		codec, err := lease.NewCodec(lease.JavaLatestVersion, lease.Key{Processor: "p", Identity: id}, false)
		if err != nil {
			t.Fatal(err)
		}
		before := c.documents()
		for _, doc := range [][]byte{codec.Encode(lease.Lease{Token: "-FF", Range: feed.Full(), Continuation: `"10"`}), codec.Marker()} {
			if _, err := c.leases.Create(t.Context(), nil, doc, storetype.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for id := range before {
			if strings.Contains(id, "..") {
				if _, err := c.leases.Delete(t.Context(), feed.PartitionKey{id}, id, storetype.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
		}
		pause(3 * time.Minute)
		err = stop()
		if !isDialectError(err) {
			t.Errorf("Run of the host that ran: %v; want a *lease.DialectError", err)
		}
		if left := c.documents(); len(left) != 3 {
			t.Errorf("there are %v; want the upgraded lease and two markers", slices.Sorted(maps.Keys(left)))
		}
		// The start is also refused if only the marker is left.
		if _, err := c.leases.Delete(t.Context(), feed.PartitionKey{codec.LeaseID("-FF")}, codec.LeaseID("-FF"), storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		err = ends(t, c, "b")
		if refusal, ok := errors.AsType[*lease.DialectError](err); !ok || !strings.Contains(refusal.Remedy, "marker") {
			t.Errorf("Run beside a marker without leases: %v; want a *lease.DialectError with a remedy", err)
		}
		if left := c.documents(); len(left) != 2 {
			t.Errorf("there are %v; want two markers", slices.Sorted(maps.Keys(left)))
		}
		// A host with DiscardLeases starts over and creates three leases.
		c.discard = true
		if err := ends(t, c, "c"); err != nil || len(c.tokens()) != 3 {
			t.Errorf("a start that discards: %v, leases %v", err, c.tokens())
		}
	})
}

// Leases of old .NET hosts have no range. If a lease's partition splits before a host has
// written the range, the lease still covers all children.
func TestLeaseWithoutRangeCoversItsPartitionsChildren(t *testing.T) {
	inBubble(t, lease.DotNet, func(c *counter) {
		c.write(30)
		stop := c.run("a")
		pause(time.Minute)
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		for id, text := range c.documents() {
			if !strings.Contains(id, "..") {
				continue
			}
			var members map[string]any
			if err := json.Unmarshal([]byte(text), &members); err != nil {
				t.Fatal(err)
			}
			delete(members, "FeedRange")
			old, err := json.Marshal(members)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := c.leases.Upsert(t.Context(), nil, old, storetype.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		c.split("1")
		c.split(lastPartition(t, c.orders))
		c.write(30)
		c.run("b")
		pause(2 * time.Minute)
		c.wantOnce()
		if n := len(c.tokens()); n != 5 {
			t.Errorf("the leases are %v", c.tokens())
		}
	})
}

// After a merge, the position of a lease may have an LSN for each former partition. Hosts
// store such positions in every dialect, and read them again after a restart.
func TestPositionOfAMergedPartitionSurvivesRestarts(t *testing.T) {
	for _, d := range []lease.Dialect{lease.DotNet, lease.JavaHandleChanges, lease.JavaLatestVersion} {
		t.Run(d.Name(), func(t *testing.T) {
			inBubble(t, d, func(c *counter) {
				c.write(60)
				stats, err := c.orders.PartitionStats(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				merged, err := c.orders.Merge(t.Context(), "0", "1")
				if err != nil {
					t.Fatal(err)
				}
				// Of both partitions, all documents but the last three are read.
				l := lease.ForPartition(merged)
				if d == lease.JavaLatestVersion {
					l = lease.ForRange(merged.Range)
				}
				l.Continuation = feed.Continuation(fmt.Sprintf(`"%d;%s:%d"`, stats[0].LSN-3, stats[1].Range.Min, stats[1].LSN-3))
				if _, err := c.openLeases().Create(t.Context(), l); err != nil {
					t.Fatal(err)
				}
				for n, instance := range []string{"a", "b", "c"} {
					c.configure = func(cfg *changefeed.Config) {
						cfg.MaxItems, cfg.ReadAhead = 1, -1
						cfg.Handler = changefeed.HandlerFunc(func(ctx context.Context, b *changefeed.Batch) error {
							switch {
							case b.Range != merged.Range:
								return nil // of the third partition
							case n < 2 && len(c.counts) >= 2*(n+1):
								return errors.New("enough")
							}
							return c.Handle(ctx, b)
						})
					}
					stop := c.run(instance)
					pause(time.Minute)
					if err := stop(); err != nil {
						t.Error(err)
					}
					if at := c.position(merged); n < 2 && !strings.Contains(string(at), ";") {
						t.Errorf("host %s has stored the position %s", instance, at)
					}
				}
				for id, n := range c.counts {
					if n != 1 {
						t.Errorf("%s was delivered %d times", id, n)
					}
				}
				if want := feed.Continuation(fmt.Sprintf(`"%d"`, max(stats[0].LSN, stats[1].LSN))); len(c.counts) != 6 || c.position(merged) != want {
					t.Errorf("%v were delivered up to %s; want 6 up to %s", c.counts, c.position(merged), want)
				}
			})
		})
	}
}

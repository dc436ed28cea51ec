package replicate

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

// stage is a store with two containers: orders keyed by customer, and a target keyed by
// product.
type stage struct {
	*testing.T
	account    *connect.Opened
	from, to   *store.Container
	said       *lines
	background sync.WaitGroup
}

// lines collects the output of a run.
type lines struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *lines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// onStage runs the test play in a bubble, on a new stage.
func onStage(t *testing.T, play func(s *stage)) {
	t.Helper()
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		db, err := store.Open(dir, store.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "shop"}); err != nil {
			t.Fatal(err)
		}
		for id, path := range map[string]string{"orders": "/customer", "by-product": "/product"} {
			_, err := db.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: id, KeyPaths: []string{path}, Partitions: 3, Retention: time.Hour})
			if err != nil {
				t.Fatal(err)
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		s := &stage{T: t, said: &lines{}}
		if s.account, err = connect.NewAccount("").OpenSettings(connect.Settings{Data: dir}); err != nil {
			t.Fatal(err)
		}
		if s.from, err = s.account.DB.Container(t.Context(), "shop", "orders"); err != nil {
			t.Fatal(err)
		}
		if s.to, err = s.account.DB.Container(t.Context(), "shop", "by-product"); err != nil {
			t.Fatal(err)
		}
		play(s)
		s.background.Wait()
		if err := errors.Join(s.account.DB.Check(context.Background()), s.account.Close()); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Log(s.said)
		}
	})
}

// config returns the configuration of a run from orders to by-product.
func (s *stage) config() Config {
	at := func(name string) Container { return Container{Account: s.account, Database: "shop", Container: name} }
	return Config{
		From: at("orders"), To: at("by-product"), Leases: at("leases"), Create: true, Out: s.said,
		UntilCaughtUp: true, Expiration: 20 * time.Second,
	}
}

func (s *stage) run(cfg Config) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Hour)
	defer cancel()
	if err := Run(ctx, cfg); err != nil || ctx.Err() != nil {
		s.Fatalf("run: %v, %v\n%s", err, ctx.Err(), s.said)
	}
}

// follow runs a replication in the background, until the returned function end is called.
func (s *stage) follow(cfg Config) (end func()) {
	cfg.UntilCaughtUp = false
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan error, 1)
	s.background.Go(func() { done <- Run(ctx, cfg) })
	return func() {
		s.Helper()
		cancel()
		if err := <-done; err != nil {
			s.Errorf("run: %v", err)
		}
	}
}

func (s *stage) write(id, customer, product string, n int) {
	s.Helper()
	body := fmt.Sprintf(`{"id":%q,"customer":%q,"product":%q,"n":%d}`, id, customer, product, n)
	if _, err := s.from.Upsert(s.Context(), nil, []byte(body), storetype.WriteOptions{}); err != nil {
		s.Fatal(err)
	}
}

func (s *stage) remove(id, customer string) {
	s.Helper()
	if _, err := s.from.Delete(s.Context(), feed.PartitionKey{customer}, id, storetype.WriteOptions{}); err != nil {
		s.Fatal(err)
	}
}

// documents returns a container's documents by partition key and id, without system
// properties.
func (s *stage) documents(c *store.Container) map[string]string {
	s.Helper()
	keys := shape{source: definition{paths: [][]string{{"customer"}}}, target: definition{paths: [][]string{{"product"}}}}
	all := map[string]string{}
	reader, err := feed.NewReader(s.account.DB.Source(c), feed.ReaderConfig{Start: feed.Beginning()})
	if err != nil {
		s.Fatal(err)
	}
	for page, err := range reader.Pages(s.Context()) {
		if err != nil {
			s.Fatal(err)
		}
		for _, change := range page.Changes {
			d, err := keys.parse(change.Current)
			if err != nil {
				s.Fatal(err)
			}
			all[d.name()] += string(d.body)
		}
	}
	return all
}

// equal fails the test unless the target has exactly count documents and the same ones as
// the source.
func (s *stage) equal(count int) {
	s.Helper()
	from, to := s.documents(s.from), s.documents(s.to)
	if len(from) != count {
		s.Errorf("the source has %d documents; want %d", len(from), count)
	}
	if !maps.Equal(from, to) {
		s.Errorf("source and target differ: %d and %d documents", len(from), len(to))
		for _, name := range slices.Sorted(maps.Keys(from)) {
			if to[name] != from[name] {
				s.Errorf("%s is %s, and its copy %s", name, from[name], to[name])
				break
			}
		}
	}
}

func (s *stage) fill(n int) {
	s.Helper()
	var all sync.WaitGroup
	for w := range 16 { // concurrent writers share the syncs of the store's log
		all.Go(func() {
			for i := w; i < n; i += 16 {
				s.write(fmt.Sprint(i), fmt.Sprint("customer ", i%97), fmt.Sprint("product ", i%13), 1)
			}
		})
	}
	all.Wait()
}

func TestReplicateCopiesUnderAnotherKeyAndResumes(t *testing.T) {
	onStage(t, func(s *stage) {
		s.fill(2500) // more than a page per partition
		s.run(s.config())
		s.equal(2500)
		s.fill(100)
		s.write("new", "ada", "lamp", 1)
		before := s.said.String()
		s.run(s.config())
		s.equal(2501)
		if text, _ := strings.CutPrefix(s.said.String(), before); !strings.Contains(text, "copied 101 documents") {
			t.Errorf("the second run was to copy 101 documents:\n%s", text)
		}
	})
}

func TestReplicateMovesADocumentWhoseNewKeyChanges(t *testing.T) {
	onStage(t, func(s *stage) {
		s.fill(300)
		s.write("x", "bob", "lamp", 1) // another document with the same id
		s.run(s.config())
		end := s.follow(s.config())
		s.write("1", "customer 1", "moved", 2)
		s.write("x", "bob", "chair", 2)
		s.write("x", "ada", "lamp", 1)
		<-time.After(time.Minute)
		s.write("1", "customer 1", "moved again", 3)
		<-time.After(time.Minute)
		end()
		s.equal(302)
		if !strings.Contains(s.said.String(), "2 moved to another key") && !strings.Contains(s.said.String(), "3 moved to another key") {
			t.Errorf("the output does not report the moves:\n%s", s.said)
		}
	})
}

// A document's product changes, and so its target key, while no process runs. The next
// run must delete the copy under the old key, even if the copy was not checkpointed.
func TestReplicateMovesDocumentsThatChangedWhileItWasStopped(t *testing.T) {
	onStage(t, func(s *stage) {
		s.fill(200)
		s.run(s.config())
		for i := range 100 {
			s.write(fmt.Sprint(i), fmt.Sprint("customer ", i%97), "moved", 2)
		}
		s.run(s.config())
		s.equal(200)
	})
}

func TestReplicateWithoutMovesDoublesAndReportsIt(t *testing.T) {
	onStage(t, func(s *stage) {
		cfg := s.config()
		cfg.NoMoves = true
		s.fill(50)
		s.run(cfg)
		s.write("1", "customer 1", "moved", 2)
		s.write("2", "customer 2", "product 2", 2)
		s.run(cfg)
		if n := len(s.documents(s.to)); n != 50 { // two copies of document 1 would have the same name in this map
			t.Errorf("%d documents", n)
		}
		for _, want := range []string{"--no-moves: when a document's new key changes", "2 changes of documents with an unknown old key"} {
			if !strings.Contains(s.said.String(), want) {
				t.Errorf("the output lacks %q:\n%s", want, s.said)
			}
		}
		if doubled := s.documents(s.to)[`id "1" of key ["customer 1"]`]; strings.Count(doubled, `"id"`) != 2 {
			t.Errorf("the target has %s of document 1; want it twice", doubled)
		}
	})
}

// The target has large documents under 20 keys. One bulk request reads them all, but one
// answer has room for only eight of them.
func TestReplicateWithoutMovesCopiesManyLargeDocuments(t *testing.T) {
	onStage(t, func(s *stage) {
		cfg := s.config()
		cfg.NoMoves = true
		text := strings.Repeat("x", 500_000)
		for round := range 2 {
			for i := range 20 {
				body := fmt.Sprintf(`{"id":"%d","customer":"customer 1","product":"lamp","n":%d,"text":%q}`, i, round, text)
				if _, err := s.from.Upsert(s.Context(), nil, []byte(body), storetype.WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			s.run(cfg)
			s.equal(20)
		}
	})
}

func TestReplicateStopsAtTwoDocumentsThatWouldBecomeOneAndNamesThem(t *testing.T) {
	for _, versions := range []bool{false, true} {
		onStage(t, func(s *stage) {
			s.fill(50)
			s.write("same", "ada", "lamp", 1)
			s.write("same", "bob", "lamp", 1)
			cfg := s.config()
			cfg.Versions = versions
			err := Run(s.Context(), cfg)
			var collision *CollisionError
			if !errors.As(err, &collision) {
				t.Fatalf("it ended with %v", err)
			}
			names := []string{collision.First, collision.Second}
			slices.Sort(names)
			if collision.ID != "same" || collision.Key != `["lamp"]` || !slices.Equal(names, []string{`["ada"]`, `["bob"]`}) {
				t.Errorf("%+v", collision)
			}
			// When one of the two documents has got another key, the run resumes.
			s.write("same", "bob", "chair", 2)
			s.run(cfg)
			s.equal(52)
		})
	}
}

// In the source, a document leaves its target key, and another document with the same id
// takes the key. The copy of the first may be older than that. The replication must not
// report a collision.
func TestReplicateAcceptsAnItemAtTheFormerKeyOfAnother(t *testing.T) {
	for _, versions := range []bool{false, true} {
		onStage(t, func(s *stage) {
			cfg := s.config()
			cfg.Versions = versions
			for i := range 40 {
				s.write(fmt.Sprint(i), "ada", fmt.Sprint("product ", i), 1)
			}
			s.run(cfg)
			for i := range 40 { // partitions are read concurrently, so in any order
				s.write(fmt.Sprint(i), "ada", fmt.Sprint("elsewhere ", i), 2)
				s.write(fmt.Sprint(i), fmt.Sprint("bob ", i), fmt.Sprint("product ", i), 1)
			}
			s.run(cfg)
			s.equal(80)
		})
	}
}

func TestReplicateOfAllVersionsCopiesDocumentsThenDeletesAndMoves(t *testing.T) {
	onStage(t, func(s *stage) {
		cfg := s.config()
		cfg.Versions = true
		s.fill(300)
		end := s.follow(cfg)
		for i := range 60 { // orders are written during the first copy and after it
			<-time.After(time.Second)
			s.write(fmt.Sprint(i), fmt.Sprint("customer ", i%97), "moved", 2)
			s.remove(fmt.Sprint(100+i), fmt.Sprint("customer ", (100+i)%97))
			s.write(fmt.Sprint(100+i), fmt.Sprint("customer ", (100+i)%97), "back", 1)
			s.remove(fmt.Sprint(200+i), fmt.Sprint("customer ", (200+i)%97))
		}
		<-time.After(time.Minute)
		end()
		s.equal(240)
		s.remove("0", "customer 0")
		s.run(cfg)
		s.equal(239)
		if !strings.Contains(s.said.String(), "processor replicate-shop-by-product for existing documents, replicate-shop-by-product-versions for later changes") {
			t.Errorf("the output does not name the processors:\n%s", s.said)
		}
	})
}

func TestReplicateIsSharedByProcessesAndFollowsSplits(t *testing.T) {
	onStage(t, func(s *stage) {
		cfg := s.config()
		cfg.Hosts = 2
		end := []func(){s.follow(cfg), s.follow(cfg)}
		for i := range 400 {
			<-time.After(100 * time.Millisecond)
			s.write(fmt.Sprint(i%250), fmt.Sprint("customer ", i%50), fmt.Sprint("product ", i%7), i)
			if i == 100 {
				if _, err := s.from.Split(s.Context(), "1", ""); err != nil {
					t.Fatal(err)
				}
				if _, err := s.to.Split(s.Context(), "0", ""); err != nil {
					t.Fatal(err)
				}
			}
		}
		<-time.After(2 * time.Minute)
		for _, end := range end {
			end()
		}
		s.equal(250)
		s.run(s.config())
		s.equal(250)
	})
}

func TestReplicateRefusesTheLeasesOfAnotherReplication(t *testing.T) {
	onStage(t, func(s *stage) {
		s.fill(10)
		s.run(s.config())
		for name, change := range map[string]func(*Config){
			"mode": func(c *Config) { c.Versions = true },
			"into another container": func(c *Config) {
				c.To.Container, c.Key, c.Processor = "other", []string{"/product"}, "replicate-shop-by-product"
			},
			"cannot be copied into itself": func(c *Config) { c.To.Container = "orders" },
			"the source and the lease container": func(c *Config) {
				c.From.Container, c.Processor = c.Leases.Container, "of leases"
			},
			"the target and the lease container": func(c *Config) {
				c.To.Container, c.Key, c.Processor = c.Leases.Container, nil, "into leases"
			},
			"has key /product": func(c *Config) { c.Key = []string{"/n"} },
			"container shop/nothing does not exist in": func(c *Config) {
				c.From.Container = "nothing"
			},
			"--create creates it":                           func(c *Config) { c.Create, c.To.Container = false, "missing" },
			"lease container shop/no-leases does not exist": func(c *Config) { c.Create, c.Leases.Container = false, "no-leases" },
		} {
			cfg := s.config()
			change(&cfg)
			err := Run(s.Context(), cfg)
			var config *ConfigError
			if !errors.As(err, &config) || !strings.Contains(err.Error(), name) {
				t.Errorf("%s: %v", name, err)
			} else if strings.Contains(err.Error(), "another --processor") && !strings.Contains(err.Error(), `document "replicate:`) {
				t.Errorf("%s: the error does not name the documents to delete: %v", name, err)
			}
		}
	})
}

// If the source does not retain all versions, a run in all versions and deletes mode ends
// at once with an error. Otherwise it would retry forever.
func TestReplicateOfAllVersionsNeedsAContainerThatKeepsThem(t *testing.T) {
	onStage(t, func(s *stage) {
		if _, err := s.account.DB.CreateContainer(t.Context(), "shop", storetype.ContainerProperties{ID: "latest only", KeyPaths: []string{"/customer"}}); err != nil {
			t.Fatal(err)
		}
		cfg := s.config()
		cfg.From.Container, cfg.Versions = "latest only", true
		ctx, cancel := context.WithTimeout(s.Context(), 10*time.Minute)
		defer cancel()
		if err := Run(ctx, cfg); !errors.Is(err, feed.ErrUnsupported) || ctx.Err() != nil {
			t.Errorf("it ended with %v (%v)\n%s", err, ctx.Err(), s.said)
		}
	})
}

func TestReplicateThatIsInterruptedHasNotCaughtUp(t *testing.T) {
	onStage(t, func(s *stage) {
		s.fill(100)
		ctx, cancel := context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		if err := Run(ctx, s.config()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("an interrupted run until caught up: %v", err)
		}
		cfg := s.config()
		cfg.UntilCaughtUp = false
		cfg.Processor = "another" // a processor with another name has no position yet
		ctx, cancel = context.WithTimeout(s.Context(), time.Second)
		defer cancel()
		var unfinished *UnfinishedError
		if err := Run(ctx, cfg); !errors.As(err, &unfinished) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a run without end, interrupted before it had caught up: %v", err)
		}
		ctx, cancel = context.WithTimeout(s.Context(), time.Minute)
		defer cancel()
		if err := Run(ctx, cfg); err != nil {
			t.Errorf("an interrupted run without end: %v", err)
		}
		s.equal(100)
	})
}

func TestACopyHasCaughtUpOnceAMeasurementFindsNoLag(t *testing.T) {
	r := &replication{}
	for i, s := range []struct{ now, want bool }{{false, false}, {true, true}, {false, true}} {
		if end, err := r.note(measurement{caughtUp: s.now}); end || err != nil || r.caughtUp != s.want {
			t.Errorf("look %d: caught up %v, end %v, %v", i, r.caughtUp, end, err)
		}
	}
}

func TestReplicateEndsWhereAContainerIsGone(t *testing.T) {
	for _, name := range []string{"orders", "by-product"} {
		onStage(t, func(s *stage) {
			s.fill(20)
			cfg := s.config()
			cfg.UntilCaughtUp = false
			s.background.Go(func() {
				<-time.After(time.Minute)
				if err := s.account.DB.DeleteContainer(s.Context(), "shop", name); err != nil {
					t.Error(err)
				}
				if name == "by-product" {
					s.write("last", "ada", "lamp", 1)
				}
			})
			ctx, cancel := context.WithTimeout(s.Context(), time.Hour)
			defer cancel()
			if err := Run(ctx, cfg); !errors.Is(err, feed.ErrNotFound) || ctx.Err() != nil {
				t.Errorf("without %s it ended with %v (%v)\n%s", name, err, ctx.Err(), s.said)
			}
		})
	}
}

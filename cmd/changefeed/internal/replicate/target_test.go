package replicate

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/follow"
	"github.com/changefeed-go/changefeed/storetype"
)

// names returns the names of all databases and containers on the stage.
func (s *stage) names() []string {
	s.Helper()
	var all []string
	databases, err := s.account.DB.Databases(s.Context())
	if err != nil {
		s.Fatal(err)
	}
	for _, d := range databases {
		containers, err := s.account.DB.Containers(s.Context(), d.ID)
		if err != nil {
			s.Fatal(err)
		}
		all = append(all, d.ID)
		for _, c := range containers {
			p, err := c.Properties(s.Context())
			if err != nil {
				s.Fatal(err)
			}
			all = append(all, d.ID+"/"+p.ID)
		}
	}
	return all
}

// If a replication is refused, it must not have created a database or a container.
func TestARefusedReplicationMakesNothing(t *testing.T) {
	onStage(t, func(s *stage) {
		if _, err := s.account.DB.CreateContainer(s.Context(), "shop", storetype.ContainerProperties{ID: "latest only", KeyPaths: []string{"/customer"}}); err != nil {
			s.Fatal(err)
		}
		before := s.names()
		for name, c := range map[string]struct {
			change func(cfg *Config)
			want   string
		}{
			"no versions":              {func(cfg *Config) { cfg.From.Container, cfg.Versions = "latest only", true }, "versions"},
			"the leases' own name":     {func(cfg *Config) { cfg.Leases = cfg.To }, "the target and the lease container"},
			"a key that is not a path": {func(cfg *Config) { cfg.Key = []string{"/a/"} }, "key"},
			"a throughput too small":   {func(cfg *Config) { cfg.Throughput = 10 }, "create container"},
			"no lease database":        {func(cfg *Config) { cfg.Leases.Database = "nowhere" }, "no database nowhere"},
			"too many keys":            {func(cfg *Config) { cfg.Key = []string{"/a", "/b", "/c", "/d"} }, ""},
		} {
			cfg := s.config()
			cfg.To.Database, cfg.To.Container, cfg.Leases.Database = "other", "copy", "other"
			c.change(&cfg)
			if err := Run(s.Context(), cfg); err == nil || !strings.Contains(err.Error(), c.want) {
				s.Errorf("%s: %v", name, err)
			}
			if after := s.names(); !slices.Equal(after, before) {
				s.Fatalf("%s: it made something: %v, before %v", name, after, before)
			}
		}
	})
}

// A replication's target is deleted, but its leases remain. A new run must refuse to
// create the target again, because the leases record documents as copied.
func TestMissingTargetIsNotRecreatedWhileLeasesExist(t *testing.T) {
	onStage(t, func(s *stage) {
		s.fill(10)
		s.run(s.config())
		if err := s.account.DB.DeleteContainer(s.Context(), "shop", "by-product"); err != nil {
			s.Fatal(err)
		}
		before := s.names()
		cfg := s.config()
		cfg.Key = []string{"/product"}
		var refused *ConfigError
		if err := Run(s.Context(), cfg); !errors.As(err, &refused) || !strings.Contains(err.Error(), "another --processor") {
			s.Errorf("it ends with %v", err)
		}
		if after := s.names(); !slices.Equal(after, before) {
			s.Errorf("it made something: %v, before %v", after, before)
		}
	})
}

func TestTheTargetIsMadeLikeTheSource(t *testing.T) {
	onStage(t, func(s *stage) {
		ctx, client := s.Context(), s.account.Documents()
		const policies = `"defaultTtl":3600,"indexingPolicy":{"indexingMode":"consistent","automatic":true,"excludedPaths":[{"path":"/blob/*"}]},` +
			`"uniqueKeyPolicy":{"uniqueKeys":[{"paths":["/number"]}]}`
		var source map[string]any
		if err := json.Unmarshal([]byte(`{"id":"events","partitionKey":{"kind":"MultiHash","version":2,"paths":["/a","/b"]},`+policies+`}`), &source); err != nil {
			s.Fatal(err)
		}
		if err := client.Database("shop").CreateContainer(ctx, source, connect.Throughput{Autoscale: 21_000}); err != nil {
			s.Fatal(err)
		}
		events, err := s.account.DB.Container(ctx, "shop", "events")
		if err != nil {
			s.Fatal(err)
		}
		if _, err := events.Split(ctx, "0", ""); err != nil {
			s.Fatal(err)
		}
		partitions := func(name string) int {
			s.Helper()
			all, err := s.account.Source("shop", name, cosmos.SourceOptions{}).Partitions(ctx)
			if err != nil {
				s.Fatal(err)
			}
			if _, at := follow.Over(feed.Full(), all, func(p feed.Partition) feed.Range { return p.Range }); at != feed.MaxEPK {
				s.Errorf("the partitions of %s are %v", name, all)
			}
			return len(all)
		}
		for _, c := range []struct {
			name       string
			key        []string
			throughput int
			want       connect.Throughput
		}{
			{"like", nil, 0, connect.Throughput{Autoscale: 21_000}},
			{"rekeyed", []string{"/c"}, 0, connect.Throughput{Autoscale: 21_000}},
			{"small", nil, 400, connect.Throughput{Manual: 400}},
			{"none", nil, -1, connect.Throughput{}},
		} {
			cfg := s.config()
			cfg.From.Container, cfg.To.Container, cfg.Key, cfg.Throughput = "events", c.name, c.key, c.throughput
			s.run(cfg)
			made := client.Container("shop", c.name)
			p, err := made.Properties(ctx)
			if err != nil {
				s.Fatal(err)
			}
			paths := []string{"/a", "/b"}
			if c.key != nil {
				paths = c.key
			}
			// Unique keys apply within one partition key, so a target with another one has none.
			unique := bytes.Contains(p.Members["uniqueKeyPolicy"], []byte("/number"))
			if p.DefaultTTL == nil || *p.DefaultTTL != 3600 || !slices.Equal(p.PartitionKey.Paths, paths) || unique != (c.key == nil) ||
				!bytes.Contains(p.Members["indexingPolicy"], []byte("/blob/*")) {
				s.Errorf("%s is %s", c.name, p.Members)
			}
			rate, err := made.Throughput(ctx)
			if err != nil {
				s.Fatal(err)
			}
			if want := partitions("events"); rate != c.want || partitions(c.name) != want {
				s.Errorf("%s has %+v and %d partitions; want %+v and %d", c.name, rate, partitions(c.name), c.want, want)
			}
		}
	})
}

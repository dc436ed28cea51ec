package replicate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/storetype"
)

// twins are two keys that version 1 of the hash cannot tell apart.
var twins = [2]string{strings.Repeat("c", 101) + "1", strings.Repeat("c", 101) + "2"}

// between replaces the containers of the stage by two with the key /customer and the
// given versions of the hash. It returns the configuration of a run between them.
func (s *stage) between(from, to storetype.KeyVersion) Config {
	s.Helper()
	for id, version := range map[string]storetype.KeyVersion{"source": from, "target": to} {
		_, err := s.account.DB.CreateContainer(s.Context(), "shop", storetype.ContainerProperties{
			ID: id, KeyPaths: []string{"/customer"}, KeyVersion: version, Partitions: 2, Retention: time.Hour,
		})
		if err != nil {
			s.Fatal(err)
		}
	}
	var errs [2]error
	s.from, errs[0] = s.account.DB.Container(s.Context(), "shop", "source")
	s.to, errs[1] = s.account.DB.Container(s.Context(), "shop", "target")
	if err := errors.Join(errs[:]...); err != nil {
		s.Fatal(err)
	}
	cfg := s.config()
	cfg.From.Container, cfg.To.Container = "source", "target"
	return cfg
}

// In a source of version 1, the key of a document can change within its logical
// partition. A target of version 2 must then lose the copy under the old key.
func TestReplicateFollowsKeysThatVersion1CannotTellApart(t *testing.T) {
	for _, to := range []storetype.KeyVersion{storetype.HashV1, storetype.HashV2} {
		for _, versions := range []bool{false, true} {
			t.Run(fmt.Sprintf("to %d, all versions %t", to, versions), func(t *testing.T) {
				onStage(t, func(s *stage) {
					cfg := s.between(storetype.HashV1, to)
					cfg.Versions = versions
					for i := range 20 {
						s.write(fmt.Sprint(i), twins[0], "p", 1)
						s.write(fmt.Sprint(i), "short", "p", 1)
					}
					s.run(cfg)
					s.equal(40)
					for i := range 20 { // several writes of a document in one batch
						for n := range 2 + i%3 {
							s.write(fmt.Sprint(i), twins[(i+n)%2], "p", 2+n)
						}
					}
					if versions {
						s.remove("0", twins[0])
						s.remove("1", twins[1])
					}
					s.run(cfg)
					count := 40
					if versions {
						count = 38
					}
					s.equal(count)
				})
			})
		}
	}
}

// A target of version 1 cannot hold two documents of one id whose keys it cannot tell
// apart. Without this check, one of them would overwrite the other.
func TestReplicateStopsAtTwoKeysThatTheTargetCannotTellApart(t *testing.T) {
	onStage(t, func(s *stage) {
		cfg := s.between(storetype.HashV2, storetype.HashV1)
		s.write("same", twins[0], "p", 1)
		s.write("same", twins[1], "p", 2)
		s.write("other", twins[1], "p", 3)
		err := Run(s.Context(), cfg)
		var collision *CollisionError
		if !errors.As(err, &collision) || collision.ID != "same" || collision.First == collision.Second {
			t.Fatalf("it ended with %v", err)
		}
		if _, err := s.from.Delete(s.Context(), feed.PartitionKey{twins[0]}, "same", storetype.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		s.write("same", twins[1], "p", 4)
		s.run(cfg)
		s.equal(2)
	})
}

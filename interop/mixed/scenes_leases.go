package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/interop/internal/harness"
)

// The scenes in which something is done to the leases by others than their hosts.

// fromTime: both start at a time. What is older is never delivered, neither by who starts nor by who goes on from the other's positions, not
// after a split, and in the second dialect not after a merge.
func fromTime(ctx context.Context, s *scene) error {
	const older = "older-"
	for i := range 200 {
		key := fmt.Sprintf("k%d", i%keys)
		if err := s.Client.Upsert(ctx, s.monitored, key, fmt.Sprintf(`{"id":"%s%d","pk":%q,"n":%d}`, older, i, key, i)); err != nil {
			return err
		}
	}
	if err := pause(ctx, 2*time.Second); err != nil { // times are whole seconds
		return err
	}
	s.since = time.Now().Truncate(time.Second)
	if err := steps(
		func() error { return s.writer.write(ctx, 10*keys) },
		func() error { return s.begin(ctx, "java-a", "go-a") },
		func() error { return s.split(ctx, "java-a", "go-a") },
		func() error { return s.merge(ctx, "java-a", "go-a") },
		func() error { s.kill("go-a"); return s.settled(ctx, partitions+1, "java-a") },
		func() error { return s.start(ctx, "go-b") },
		func() error { return s.settled(ctx, partitions+1, "java-a", "go-b") },
		func() error { return s.delivers(ctx, "java-a", "go-b") },
		func() error { return s.judge(ctx, "java-a", "go-b") },
	); err != nil {
		return err
	}
	for _, h := range []string{"java-a", "go-a", "go-b"} {
		for _, d := range s.deliveries.since(0, h) {
			if strings.HasPrefix(d.change, older) {
				return fmt.Errorf("%s delivered %s, which is older than the start", h, d.change)
			}
		}
	}
	return nil
}

// upgrade: a Java host of the second dialect takes over the leases of the first while one of our hosts works on them. Ours has to
// notice, say so, make no lease again, and deliver nothing more.
func upgrade(ctx context.Context, s *scene) error {
	if err := s.begin(ctx, "go-a"); err != nil {
		return err
	}
	if err := s.startAs(ctx, "java-a", latestVersion, "beginning"); err != nil {
		return err
	}
	err := s.eventually(ctx, func() (bool, error) {
		return s.heard("go-a", "ended", "handleLatestVersionChanges", "java-latest-version"), nil
	})
	if err != nil {
		return fmt.Errorf("our host says what happened: %w", err)
	}
	if err := pause(ctx, 10*time.Second); err != nil { // more than an expiration: time to heal what mustn't be healed
		return err
	}
	all, err := s.documents(ctx)
	if err != nil {
		return err
	}
	for _, d := range all {
		if strings.Contains(d, `"LeaseToken"`) && !strings.Contains(d, `"feedRange"`) {
			return fmt.Errorf("a lease of the first dialect is there again: %s", d)
		}
	}
	mark := s.deliveries.mark()
	if err := pause(ctx, 3*time.Second); err != nil {
		return err
	}
	if more := s.deliveries.since(mark, "go-a"); len(more) > 0 {
		return fmt.Errorf("our host still delivers: %v", more[0])
	}
	s.logf("our host said: %s", s.said())
	s.kill("go-a")
	s.mode = latestVersion
	return s.judge(ctx, "java-a")
}

// names: of a database whose name has a character on which the two Base64 alphabets differ, Java's hosts can't always store a position: they write
// one alphabet and read the other. Whether it falls on a bad place depends on where it stands, so there are three databases, each a scene of its own.
func names(ctx context.Context, s *scene) error {
	for _, database := range []string{"a~b", "ab~b", "abc~b"} {
		harness.Printf(s.out, "    %s\n", database)
		if err := s.play(ctx, s.mode, "names", database, oneName); err != nil {
			return fmt.Errorf("%s: %w", database, err)
		}
	}
	return nil
}

// oneName: what ours write Java's can read, and they go on from it; when they have given up, ours go on.
func oneName(ctx context.Context, s *scene) error {
	if err := s.begin(ctx, "go-a"); err != nil {
		return err
	}
	err := s.eventually(ctx, func() (bool, error) { return s.deliveries.count("go-a") > 100, nil })
	if err != nil {
		return err
	}
	if err := steps(
		func() error { return s.writer.stop() },
		func() error {
			return s.eventually(ctx, func() (bool, error) { return len(s.deliveries.missing()) == 0, nil })
		},
		func() error { return s.stop(ctx, "go-a") },
		func() error { return s.writer.write(ctx, 3*keys) },
		func() error { return s.start(ctx, "java-a") },
		func() error {
			return s.eventually(ctx, func() (bool, error) { return s.deliveries.count("java-a") > 0, nil })
		},
	); err != nil {
		return err
	}
	before := s.deliveries.again()
	if err := pause(ctx, 3*time.Second); err != nil {
		return err
	}
	s.logf("the Java host delivered %d changes; %d of all deliveries were again, %d of them in the last 3 s", s.deliveries.count("java-a"), s.deliveries.again(), s.deliveries.again()-before)
	for _, d := range s.deliveries.since(0, "java-a") {
		if n := number(d.change); n >= 0 && n < s.writer.next-3*keys {
			return fmt.Errorf("the Java host began before the position that ours had stored: with %s", d.change)
		}
	}
	s.kill("java-a")
	return steps(
		func() error { return s.start(ctx, "go-b") },
		func() error { return s.settled(ctx, partitions, "go-b") },
		func() error { return s.judge(ctx, "go-b") },
	)
}

// number is that of a change of latest version, -1 of another.
func number(change string) int64 {
	n := int64(-1)
	if _, text, found := strings.Cut(change, "="); found {
		if _, err := fmt.Sscan(text, &n); err != nil {
			return -1
		}
	}
	return n
}

// timestamps: the leases of a dead host have times with nine digits and with a zone in brackets, as older Java hosts create them. Both
// sides read them, and take the leases when they have expired.
func timestamps(ctx context.Context, s *scene) error {
	if err := s.begin(ctx, "java-a"); err != nil {
		return err
	}
	for _, next := range []string{"go-a", "java-b", "go-b"} {
		if err := s.stop(ctx, s.running()[0]); err != nil {
			return err
		}
		all, err := s.leases(ctx)
		if err != nil {
			return err
		}
		for i, l := range all {
			zone := []string{"Z", "Z[UTC]"}[i%2]
			var members map[string]any
			if err := json.Unmarshal(l.raw, &members); err != nil {
				return err
			}
			members["Owner"] = "java-dead"
			members["timestamp"] = time.Now().UTC().Format("2006-01-02T15:04:05.999999999") + zone
			document, err := json.Marshal(members)
			if err != nil {
				return err
			}
			if err := s.replaceLease(ctx, l, string(document)); err != nil {
				return err
			}
		}
		s.logf("all leases are java-dead's")
		if err := s.start(ctx, next); err != nil {
			return err
		}
		if err := s.settled(ctx, partitions, next); err != nil {
			return err
		}
	}
	return s.judge(ctx, "go-b")
}

// running are the hosts that run.
func (s *scene) running() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []string
	for h := range s.hosts {
		all = append(all, h)
	}
	slices.Sort(all)
	return all
}

package mixed

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// In these scenes, other programs change the leases, or the containers have special names
// or times.

// fromTime tests a start time with hosts of both implementations. No change before it may
// be delivered. This must hold after a start, after a host resumes from another's
// position, after a split, and after a merge.
func fromTime(s *scene) {
	const older = "older-"
	for i := range 200 {
		key := fmt.Sprintf("k%d", i%keys)
		s.ok(s.Client.Upsert(s.Context(), s.monitored, key, fmt.Sprintf(`{"id":"%s%d","pk":%q,"n":%d}`, older, i, key, i)))
	}
	time.Sleep(2 * time.Second) // start times have whole seconds
	s.since = time.Now().Truncate(time.Second)
	s.ok(s.writer.write(s.Context(), 10*keys))
	s.begin("java-a", "go-a")
	s.split("java", "java-a", "go-a")
	s.merge("java-a", "go-a")
	s.kill("go-a")
	s.settled(partitions+1, "java-a")
	s.start("go-b")
	s.settled(partitions+1, "java-a", "go-b")
	s.delivers("java-a", "go-b")
	s.judge("java-a", "go-b")
	for _, h := range []string{"java-a", "go-a", "go-b"} {
		for _, d := range s.deliveries.since(0, h) {
			if strings.HasPrefix(d.change, older) {
				s.Fatalf("%s delivered %s, which is older than the start", h, d.change)
			}
		}
	}
}

// upgrade tests that a Java host of the second dialect replaces the leases of the first
// one while our host owns them. Our host must detect it and return an error. It must
// create no lease, and deliver nothing more.
func upgrade(s *scene) {
	s.begin("go-a")
	s.startAs("java-a", latestVersion, "beginning")
	if !eventually(func() bool { return s.heard("go-a", "ended", "handleLatestVersionChanges", "java-latest-version") }) {
		s.Fatalf("our host did not end with the name of the other dialect in %s", patience)
	}
	time.Sleep(10 * time.Second) // longer than an expiration, so that a host that wrongly recreates leases does it now
	all, err := s.Client.Documents(s.Context(), s.leaseContainer)
	s.ok(err)
	for _, d := range all {
		if text := string(d); strings.Contains(text, `"LeaseToken"`) && !strings.Contains(text, `"feedRange"`) {
			s.Fatalf("a lease of the first dialect is there again: %s", d)
		}
	}
	mark := s.deliveries.mark()
	time.Sleep(3 * time.Second)
	if more := s.deliveries.since(mark, "go-a"); len(more) > 0 {
		s.Fatalf("our host still delivers: %v", more[0])
	}
	s.logf("our host said: %s", s.said())
	s.kill("go-a")
	s.mode = latestVersion
	s.judge("java-a")
}

// names tests databases whose names contain a character that the two Base64 alphabets
// encode differently. Java's hosts write one alphabet and read the other, so they
// sometimes cannot store a position. The offset of the character matters, so the scene
// uses three databases.
func names(s *scene) {
	for _, database := range []string{"a~b", "ab~b", "abc~b"} {
		s.Run(database, func(t *testing.T) { oneName(newScene(t, s.Driver, s.mode, database)) })
	}
}

// oneName tests one database name. A Java host must resume from a position that our host
// has stored. When the Java host has given up, our host must resume.
func oneName(s *scene) {
	s.begin("go-a")
	if !eventually(func() bool { return s.deliveries.count("go-a") > 100 }) {
		s.Fatalf("go-a delivered %d changes and no more", s.deliveries.count("go-a"))
	}
	s.ok(s.writer.stop())
	s.complete()
	s.stop("go-a")
	s.ok(s.writer.write(s.Context(), 3*keys))
	s.start("java-a")
	if !eventually(func() bool { return s.deliveries.count("java-a") > 0 }) {
		s.Fatalf("java-a delivered no change in %s", patience)
	}
	before := s.deliveries.again()
	time.Sleep(3 * time.Second)
	s.logf("java-a delivered %d changes; %d of all deliveries were again, %d of them in the last 3 s",
		s.deliveries.count("java-a"), s.deliveries.again(), s.deliveries.again()-before)
	for _, d := range s.deliveries.since(0, "java-a") {
		var n int64
		_, text, _ := strings.Cut(d.change, "=")
		if _, err := fmt.Sscan(text, &n); err == nil && n < s.writer.next-3*keys {
			s.Fatalf("the Java host began before the position that ours had stored: with %s", d.change)
		}
	}
	s.kill("java-a")
	s.start("go-b")
	s.settled(partitions, "go-b")
	s.judge("go-b")
}

// timestamps tests leases of a crashed host whose timestamps have nine digits, or a zone
// in brackets, as older Java hosts write them. Hosts of both implementations must read
// them, and acquire the leases when they have expired.
func timestamps(s *scene) {
	s.begin("java-a")
	last := "java-a"
	for _, next := range []string{"go-a", "java-b", "go-b"} {
		s.stop(last)
		for i, l := range s.leases() {
			var members map[string]any
			s.ok(json.Unmarshal(l.raw, &members))
			members["Owner"] = "java-dead"
			members["timestamp"] = time.Now().UTC().Format("2006-01-02T15:04:05.999999999") + []string{"Z", "Z[UTC]"}[i%2]
			document, err := json.Marshal(members)
			s.ok(err)
			s.ok(s.Client.Replace(s.Context(), s.leaseContainer, l.ID, l.ID, string(document), l.ETag))
		}
		s.logf("all leases are java-dead's")
		s.start(next)
		s.settled(partitions, next)
		last = next
	}
	s.judge("go-b")
}

package main

import (
	"bytes"
	"flag"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// This test measures the memory of `changefeed serve` as the operating system reports it.

var serverMemory = flag.Bool("serve.memory", false, "measure the memory of changefeed serve (five minutes)")

const (
	// idleBound is the maximum memory, in bytes, of a server after a minute without
	// requests.
	idleBound = 60 << 20
	// readBound is the maximum memory, in bytes, of a server whose readDocuments
	// documents of 1 KB were read once.
	readBound     = 250 << 20
	readDocuments = 100_000
)

func TestServersMemoryStaysBounded(t *testing.T) {
	if !*serverMemory {
		t.Skip("run with -serve.memory")
	}
	judge := func(t *testing.T, s *server, what string, bound int64) {
		t.Helper()
		now, most := s.resident(t, "VmRSS"), s.resident(t, "VmHWM")
		t.Logf("%s: %d MiB now, %d MiB at most, bound %d MiB", what, now>>20, most>>20, bound>>20)
		if most > bound {
			t.Errorf("%s: the process took %d MiB, more than %d", what, most>>20, bound>>20)
		}
		if most == 0 {
			t.Skip("this system doesn't tell a process's memory")
		}
	}
	t.Run("idle", func(t *testing.T) {
		for _, where := range [][]string{{"--memory"}, {"--data", t.TempDir()}} {
			s := startServe(t, 1, where...)
			<-time.After(time.Minute)
			judge(t, s, fmt.Sprint("idle for a minute, ", where[0]), idleBound)
			s.stop(t)
		}
	})
	t.Run("read", func(t *testing.T) {
		dir := t.TempDir()
		s := startServe(t, 64, "--data", dir)
		container := loadServer(t, s, readDocuments)
		t.Logf("after loading over 64 connections: %d MiB at most", s.resident(t, "VmHWM")>>20)
		s.stop(t)
		s = startServe(t, 1, "--data", dir)
		defer s.stop(t)
		read := 0
		err := s.Feed(t.Context(), container, 1000, func(text []byte) error {
			read += bytes.Count(text, []byte(`,"_lsn":`))
			return nil
		})
		if err != nil || read != readDocuments {
			t.Fatalf("%d documents of %d were read: %v", read, readDocuments, err)
		}
		judge(t, s, fmt.Sprintf("%d documents of 1 KB, read once", read), readBound)
	})
}

// loadServer creates a container, writes documents of 1 KB to it over 64 connections, and
// returns its path.
func loadServer(t *testing.T, s *server, documents int) string {
	t.Helper()
	container, err := s.Make(t.Context(), "shop", "orders")
	if err != nil {
		t.Fatal(err)
	}
	var next atomic.Int64
	var writers sync.WaitGroup
	for range 64 {
		writers.Go(func() {
			for n := next.Add(1); n <= int64(documents); n = next.Add(1) {
				pk := fmt.Sprint("k", n%997)
				if err := s.Put(t.Context(), container, pk, fmt.Sprintf(`{"id":"%09d","pk":%q,"text":"%0760d"}`, n, pk, n*7919)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	writers.Wait()
	return container
}

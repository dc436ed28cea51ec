package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/changefeed-go/changefeed/interop/internal/stand"
)

func isLease(l lease) bool { return l.LeaseToken != nil }

// ofHost fits the leases of an owner, with a position or without.
func ofHost(owner string, position bool) func(lease) bool {
	return func(l lease) bool {
		return isLease(l) && text(l.Owner) == owner && (l.ContinuationToken != nil) == position
	}
}

// life is the life of leases in one mode, from the beginning where the mode can: new, owned, checkpointed, renewed, split, merged,
// released, taken again, left behind by a killed host, taken over.
func (s *stage) life(ctx context.Context, mode string) (err error) {
	c, err := s.scene(ctx, mode, "", 2)
	if err != nil {
		return err
	}
	from, began := "beginning", s.proxy.count()
	if mode == "allVersions" {
		from = "now"
	}
	p, err := s.java(ctx, "")
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := errors.Join(c.put(ctx, "a", 40), p.Command(ctx, c.start("java-a", mode, from))); err != nil {
		return err
	}
	for _, d := range []struct {
		name string
		fits func(lease) bool
	}{
		{"lock", func(l lease) bool { return strings.HasSuffix(l.ID, ".lock") }},
		{"new", func(l lease) bool { return isLease(l) && l.Owner == nil }},
		{"marker", func(l lease) bool { return strings.HasSuffix(l.ID, ".info") }},
		{"owned", ofHost("java-a", false)},
		{"checkpointed", ofHost("java-a", true)},
	} {
		if _, err := c.save(ctx, d.name, d.fits); err != nil {
			return err
		}
	}
	if err := c.put(ctx, "b", 40); err != nil {
		return err
	}
	if err := c.renewed(ctx); err != nil {
		return err
	}
	if err := c.split(ctx); err != nil {
		return err
	}
	if err := c.merge(ctx, mode); err != nil {
		return err
	}
	if err := c.handOver(ctx, p, mode, from); err != nil {
		return err
	}
	return c.requests("life", began)
}

// renewed keeps a write that changes nothing but the time: it comes when there is nothing to read.
func (c *scene) renewed(ctx context.Context) error {
	c.next()
	last := map[string]lease{}
	w, err := c.awaitWrite(ctx, "renewed", func(w write) bool {
		d := w.document
		before, seen := last[d.ID]
		last[d.ID] = d
		return seen && isLease(d) && text(before.ContinuationToken) == text(d.ContinuationToken) && d.Timestamp.Sub(before.Timestamp) > time.Second
	})
	if err != nil {
		return err
	}
	return c.keep("renewed", w)
}

// split divides the first partition while it has changes, and keeps what its children's leases look like.
func (c *scene) split(ctx context.Context) error {
	monitored := stand.Container{Database: c.database, Name: c.monitored}
	all, err := c.stage.client.Partitions(ctx, monitored)
	if err != nil {
		return err
	}
	c.next()
	if _, err := c.stage.client.Split(ctx, monitored, all[0].ID); err != nil {
		return err
	}
	if err := c.put(ctx, "c", 40); err != nil {
		return err
	}
	created, err := c.awaitWrite(ctx, "child-new", func(w write) bool { return w.method == http.MethodPost && isLease(w.document) })
	if err != nil {
		return err
	}
	token := created.document.token()
	child := func(l lease) bool { return l.token() == token }
	if err := c.keep("child-new", created); err != nil {
		return err
	}
	if _, err := c.save(ctx, "child-owned", func(l lease) bool { return child(l) && l.Owner != nil }); err != nil {
		return err
	}
	inherited := text(created.document.ContinuationToken)
	_, err = c.save(ctx, "child-checkpointed", func(l lease) bool {
		return child(l) && l.Owner != nil && text(l.ContinuationToken) != inherited
	})
	return err
}

// merge joins the split partition's children again. Hosts of the first dialect don't get over it, so there a container of
// its own is merged, and what they do is kept as a text.
func (c *scene) merge(ctx context.Context, mode string) error {
	if mode == "handleChanges" {
		return c.stage.mergeInFirstDialect(ctx)
	}
	monitored := stand.Container{Database: c.database, Name: c.monitored}
	all, err := c.stage.client.Partitions(ctx, monitored)
	if err != nil {
		return err
	}
	before, err := c.stage.proxy.writes(0, c.path(c.leases))
	if err != nil {
		return err
	}
	positions := map[string]string{}
	for _, w := range before {
		positions[w.document.token()] = text(w.document.ContinuationToken)
	}
	c.next()
	if _, err := c.stage.client.Merge(ctx, monitored, all[0].ID); err != nil {
		return err
	}
	if _, err := c.save(ctx, "merged-released", func(l lease) bool { return isLease(l) && l.Owner == nil }); err != nil {
		return err
	}
	if err := c.put(ctx, "d", 40); err != nil {
		return err
	}
	first := all[0].Min + "-" + all[0].Max
	_, err = c.save(ctx, "merged-checkpointed", func(l lease) bool {
		return l.token() == first && l.Owner != nil && text(l.ContinuationToken) != positions[first]
	})
	return err
}

// mergeInFirstDialect keeps what hosts of handleChanges write and ask after a merge of two partitions with leases.
func (s *stage) mergeInFirstDialect(ctx context.Context) error {
	c, err := s.scene(ctx, "handleChanges", "", 2)
	if err != nil {
		return err
	}
	c.leases = "leases-merge"
	monitored := stand.Container{Database: c.database, Name: c.monitored}
	if err := s.client.CreateContainer(ctx, stand.Container{Database: c.database, Name: c.leases}, "/id", 1); err != nil {
		return err
	}
	p, err := s.java(ctx, "")
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := errors.Join(c.put(ctx, "a", 20), p.Command(ctx, c.start("java-a", "handleChanges", "beginning"))); err != nil {
		return err
	}
	if _, err := c.await(ctx, "a position", ofHost("java-a", true)); err != nil {
		return err
	}
	all, err := s.client.Partitions(ctx, monitored)
	if err != nil {
		return err
	}
	c.next()
	if _, err := s.client.Merge(ctx, monitored, all[0].ID); err != nil {
		return err
	}
	if err := c.put(ctx, "b", 20); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(8 * time.Second): // nothing tells when it is over
	}
	lines := feedRequests(s.proxy.since(c.mark), c.path(c.monitored))
	for _, e := range s.proxy.since(c.mark) {
		isWrite := e.method == http.MethodPost || e.method == http.MethodPut || e.method == http.MethodDelete
		if isWrite && strings.HasPrefix(e.path, c.path(c.leases)+"/docs") && !e.query() {
			lines = append(lines, fmt.Sprintf("%s %s -> %d %s", e.method, e.path, e.status, e.sent))
		}
	}
	text := strings.Join(lines, "\n") + "\n"
	writef(s.out, "after a merge:\n%s", text)
	return os.WriteFile(filepath.Join(c.directory, "merge.txt"), []byte(text), 0o600)
}

// handOver stops the host, starts it in a process of its own, kills that, and has another take over.
func (c *scene) handOver(ctx context.Context, p *stand.Process, mode, from string) error {
	c.next()
	if err := p.Command(ctx, "stop java-a"); err != nil {
		return err
	}
	if _, err := c.save(ctx, "released", func(l lease) bool { return isLease(l) && l.Owner == nil }); err != nil {
		return err
	}
	b, err := c.stage.java(ctx, "")
	if err != nil {
		return err
	}
	defer b.Kill()
	left, err := c.owners(ctx)
	if err != nil {
		return err
	}
	writef(c.stage.out, "    owners after the stop: %q\n", left)
	c.next()
	if err := b.Command(ctx, c.start("java-b", mode, from)); err != nil {
		return err
	}
	if _, err := c.save(ctx, "taken", func(l lease) bool { return isLease(l) && text(l.Owner) == "java-b" }); err != nil {
		return err
	}
	last, err := c.await(ctx, "a position", ofHost("java-b", true))
	if err != nil {
		return err
	}
	if err := c.put(ctx, "e", 40); err != nil {
		return err
	}
	if _, err := c.save(ctx, "restarted-checkpointed", func(l lease) bool {
		return isLease(l) && l.token() == last.document.token() && text(l.Owner) == "java-b" && text(l.ContinuationToken) != text(last.document.ContinuationToken)
	}); err != nil {
		return err
	}
	b.Kill()
	c.next()
	if err := p.Command(ctx, c.start("java-c", mode, from)); err != nil {
		return err
	}
	if _, err := c.save(ctx, "taken-over", func(l lease) bool {
		return l.token() == last.document.token() && text(l.Owner) == "java-c"
	}); err != nil {
		return err
	}
	return p.Command(ctx, "stop java-c")
}

// owners are those of all leases.
func (c *scene) owners(ctx context.Context) ([]string, error) {
	all, err := c.stage.client.Documents(ctx, stand.Container{Database: c.database, Name: c.leases})
	if err != nil {
		return nil, err
	}
	var owners []string
	for _, d := range all {
		var l lease
		if err := json.Unmarshal(d, &l); err != nil {
			return nil, err
		}
		if isLease(l) {
			owners = append(owners, text(l.Owner))
		}
	}
	return owners, nil
}

// starts are the first positions of each kind of start: with nothing to read, and with a change behind the start.
func (s *stage) starts(ctx context.Context) error {
	p, err := s.java(ctx, "")
	if err != nil {
		return err
	}
	defer p.Kill()
	for _, mode := range []string{"handleChanges", "latestVersion", "allVersions"} {
		for _, from := range []string{"beginning", "now", "time"} {
			if mode == "allVersions" && from != "now" {
				continue
			}
			began := s.proxy.count()
			c, err := s.scene(ctx, mode, "", 1)
			if err != nil {
				return err
			}
			start := from
			if from == "time" {
				start = time.Now().Add(-time.Hour).UTC().Truncate(time.Millisecond).Format("2006-01-02T15:04:05.000Z")
			}
			host := "java-" + from
			if err := p.Command(ctx, c.start(host, mode, start)); err != nil {
				return err
			}
			idle, err := c.save(ctx, "start-"+from+"-idle", ofHost(host, true))
			if err != nil {
				return err
			}
			if err := c.put(ctx, "a", 5); err != nil {
				return err
			}
			if _, err := c.save(ctx, "start-"+from+"-checkpointed", func(l lease) bool {
				return ofHost(host, true)(l) && text(l.ContinuationToken) != text(idle.document.ContinuationToken)
			}); err != nil {
				return err
			}
			if err := p.Command(ctx, "stop "+host); err != nil {
				return err
			}
			if err := c.requests("start-"+from, began); err != nil {
				return err
			}
		}
	}
	return nil
}

// upgrade has the second dialect take over leases of the first, one of them without a position.
func (s *stage) upgrade(ctx context.Context) error {
	c, err := s.scene(ctx, "upgrade", "", 2)
	if err != nil {
		return err
	}
	p, err := s.java(ctx, "")
	if err != nil {
		return err
	}
	defer p.Kill()
	if err := errors.Join(c.put(ctx, "a", 20), p.Command(ctx, c.start("java-a", "handleChanges", "beginning"))); err != nil {
		return err
	}
	if _, err := c.await(ctx, "a position", ofHost("java-a", true)); err != nil {
		return err
	}
	if err := p.Command(ctx, "stop java-a"); err != nil {
		return err
	}
	c.next()
	if err := p.Command(ctx, c.start("java-b", "latestVersion", "beginning")); err != nil {
		return err
	}
	if _, err := c.save(ctx, "upgraded", func(l lease) bool { return l.Version != nil && l.Owner == nil && l.ContinuationToken != nil }); err != nil {
		return err
	}
	if _, err := c.save(ctx, "upgraded-owned", ofHost("java-b", true)); err != nil {
		return err
	}
	if err := p.Command(ctx, "stop java-b"); err != nil {
		return err
	}
	c.next()
	refused := p.Command(ctx, c.start("java-a2", "handleChanges", "beginning"))
	left, err := s.client.Documents(ctx, stand.Container{Database: c.database, Name: c.leases})
	if err != nil {
		return err
	}
	var b strings.Builder
	fmt.Fprintf(&b, "handleChanges after the upgrade: %v\ndocuments:\n", refused)
	for _, d := range left {
		fmt.Fprintf(&b, "%s\n", d)
	}
	writef(s.out, "%s", b.String())
	return os.WriteFile(filepath.Join(c.directory, "documents.txt"), []byte(b.String()), 0o600)
}

// names are positions that name databases with characters on which the two Base64 alphabets differ, and a host name
// that the endpoint has in upper case. Which of them Java's hosts can make at all is kept as a text.
func (s *stage) names(ctx context.Context) error {
	p, err := s.java(ctx, strings.Replace(s.proxy.endpoint, "localhost", "LocalHost", 1))
	if err != nil {
		return err
	}
	defer p.Kill()
	var lines strings.Builder
	for i, name := range []string{"a~b", "ab~b", "abc~b", "a>b", "ab>b", "abc>b", "caf\u00e9", "shop\u20ac"} {
		c, err := s.scene(ctx, "names", name, 1)
		if err != nil {
			return err
		}
		c.patience = 8 * time.Second
		host := fmt.Sprintf("java-%d", i)
		if err := errors.Join(c.put(ctx, "a", 5), p.Command(ctx, c.start(host, "latestVersion", "beginning"))); err != nil {
			return err
		}
		verdict := "a position is stored"
		if _, err := c.save(ctx, fmt.Sprintf("name-%d", i), ofHost(host, true)); errors.Is(err, errNever) {
			releases := 0
			all, err := s.proxy.writes(c.mark, c.path(c.leases))
			if err != nil {
				return err
			}
			for _, w := range all {
				if w.method == http.MethodPut && w.document.Owner == nil {
					releases++
				}
			}
			verdict = fmt.Sprintf("no position is ever stored: the lease was released %d times in %s, and its changes were handed out as often", releases, c.patience)
		} else if err != nil {
			return err
		}
		writef(s.out, "    %s: %s\n", name, verdict)
		fmt.Fprintf(&lines, "name-%d: database %q: %s\n", i, name, verdict)
		if err := p.Command(ctx, "stop "+host); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(s.into, "names", "names.txt"), []byte(lines.String()), 0o600)
}

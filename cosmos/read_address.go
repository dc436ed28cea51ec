package cosmos

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// target is what a request addresses: a partition, a range of keys in it, one logical key.
type target struct {
	// named tells that the request names its partition, which is then never looked for.
	named bool
	// partition has an ID, and a Range where it is known. It is empty for a full key without a partition: the service
	// finds it.
	partition feed.Partition
	// keys is what is to be read inside the partition.
	keys feed.Range
	// key is the header of a full logical key.
	key string
	// nothing tells that the request's key isn't in its range: the feed is read for its positions.
	nothing bool
}

// newTarget reads what a request addresses. Error: it can be no part of the container.
func newTarget(p *properties, r feed.Request) (*target, error) {
	t := &target{named: r.Partition.ID != "", partition: r.Partition, keys: r.Range.OrFull()}
	if t.keys.IsEmpty() || !isHex(t.keys.Min) || !isHex(t.keys.Max) || t.keys.Max > feed.MaxEPK {
		return nil, fmt.Errorf("range %s: %w: it is no range of upper-case hexadecimal keys up to %s", t.keys, feed.ErrUnsupported, feed.MaxEPK)
	}
	if len(r.Key) == 0 {
		return t, nil
	}
	components, header, err := keyComponents(r.Key)
	if err != nil {
		return nil, err
	}
	if len(components) > len(p.keyPaths) || len(components) < len(p.keyPaths) && p.hash != epk.MultiHash {
		return nil, fmt.Errorf("partition key %s: %w: it has %d components, and the container's has %d", header, feed.ErrUnsupported, len(components),
			len(p.keyPaths))
	}
	low, high := p.hash.Prefix(components)
	whole := len(components) == len(p.keyPaths)
	switch inside := t.keys.Intersect(feed.Range{Min: low, Max: high}); {
	case inside.IsEmpty(), whole && !t.keys.Holds(low):
		t.nothing = true
	case whole:
		t.key, t.keys = header, inside
	default:
		t.keys = inside
	}
	return t, nil
}

// isHex reports whether a border is written as upper-case hexadecimal.
func isHex(border string) bool { return strings.Trim(border, "0123456789ABCDEF") == "" }

// keyComponents converts a key for hashing, and writes it for the header: JSON, and ASCII alone.
func keyComponents(key feed.PartitionKey) (components []epk.Component, header string, err error) {
	text := key.String()
	plain, err := feed.ParsePartitionKey(text)
	if err != nil {
		return nil, "", fmt.Errorf("partition key %.100v: %w: %w", []any(key), feed.ErrUnsupported, err)
	}
	components = make([]epk.Component, len(plain))
	for i, v := range plain {
		switch v := v.(type) {
		case nil:
			components[i] = epk.Component{Kind: epk.Null}
		case bool:
			components[i] = epk.OfBool(v)
		case string:
			components[i] = epk.OfString(v)
		case float64:
			components[i] = epk.OfNumber(v)
		} // what else there is, is undefined, as the zero Component
	}
	return components, ascii(text), nil
}

// ascii writes JSON text with escapes for all that isn't ASCII, as headers have to be.
func ascii(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r < 0x80:
			b.WriteRune(r)
		case r > 0xFFFF: // a surrogate pair
			r -= 0x10000
			fmt.Fprintf(&b, `\u%04x\u%04x`, 0xD800+(r>>10), 0xDC00+(r&0x3FF))
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// address writes the headers of what is addressed. A range of keys is sent only where it is narrower than the partition.
func (t *target) address(h http.Header) {
	if t.partition.ID != "" {
		h.Set(wire.HeaderPartitionID, t.partition.ID)
	}
	if t.key != "" {
		h.Set(wire.HeaderPartitionKey, t.key)
		return
	}
	if t.keys == feed.Full() || !t.partition.Range.IsZero() && t.keys.Contains(t.partition.Range) {
		return
	}
	h.Set(wire.HeaderReadKeyType, wire.KeyTypeRange)
	h.Set(wire.HeaderStartEPK, t.keys.Min)
	h.Set(wire.HeaderEndEPK, t.keys.Max)
}

// route finds the partition of a request that names none: the only one that holds keys of its range. anew: the list
// that is known has proved old. *feed.GoneError: there are several.
func (s *Source) route(ctx context.Context, p *properties, t *target, anew bool) (charge float64, err error) {
	if t.named || t.key != "" {
		return 0, nil
	}
	for {
		some, cost, err := s.holding(ctx, p, t.keys, anew)
		charge += cost
		switch {
		case err != nil:
			return charge, err
		case len(some) == 1:
			t.partition = some[0]
			return charge, nil
		case anew || cost > 0: // the list is new
			return charge, &feed.GoneError{Range: t.keys}
		}
		anew = true
	}
}

// sessionOf is the session token to send with a read of a partition: the later one of what its answers said and what the
// user asked for, or of its parents. Empty: none is known, or the consistency level knows no sessions.
func (s *Source) sessionOf(p feed.Partition) string {
	level := string(s.account.options.Consistency)
	if known, _ := s.account.client.regions.current(); level == "" && known != nil {
		level = known.Consistency.Default
	}
	if !strings.EqualFold(level, "Session") || p.ID == "" {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var best string
	highest := int64(-1)
	for _, id := range append([]string{p.ID}, p.Parents...) {
		for _, vector := range []string{s.sessions[id], vectorOf(s.options.SessionToken, id)} {
			if lsn, ok := wire.SessionLSN(id+":"+vector, id); ok && lsn > highest {
				best, highest = p.ID+":"+vector, lsn
			}
		}
		if best != "" {
			return best // a parent's is for who has none of its own
		}
	}
	return ""
}

// vectorOf is a partition's part of a session token, without its id.
func vectorOf(token, partition string) string {
	for part := range strings.SplitSeq(token, ",") {
		if id, vector, found := strings.Cut(strings.TrimSpace(part), ":"); found && id == partition {
			return vector
		}
	}
	return ""
}

// remember keeps an answer's session token, unless a later one is known.
func (s *Source) remember(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for part := range strings.SplitSeq(token, ",") {
		id, vector, found := strings.Cut(strings.TrimSpace(part), ":")
		if !found {
			continue
		}
		lsn, ok := wire.SessionLSN(part, id)
		if was, known := wire.SessionLSN(id+":"+s.sessions[id], id); ok && (!known || lsn > was) {
			s.sessions[id] = vector
		}
	}
}

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

// target is the target of a request: a partition, a range of keys in it, or one logical
// key.
type target struct {
	// named reports whether the request names its partition, which is then used as it is.
	named bool
	// partition is the partition to read, with its ID, and its Range if that is known. It
	// is empty for a full key without a partition, because the service finds that
	// partition.
	partition feed.Partition
	// keys is the range to read inside the partition.
	keys feed.Range
	// key is the value of the partition key header, for a full key.
	key string
	// nothing reports whether the request's key is outside of its range. Then the read
	// returns positions and no changes.
	nothing bool
}

// newTarget returns the target of a request. It returns an error if the container cannot
// have such a target.
func newTarget(p *properties, r feed.Request) (*target, error) {
	t := &target{named: r.Partition.ID != "", partition: r.Partition, keys: r.Range.OrFull()}
	if t.keys.IsEmpty() || !isHex(t.keys.Min) || !isHex(t.keys.Max) || t.keys.Max > feed.MaxEPK {
		return nil, fmt.Errorf("range %s: %w: the bounds must be upper-case hexadecimal up to %s", t.keys, feed.ErrUnsupported, feed.MaxEPK)
	}
	if len(r.Key) == 0 {
		return t, nil
	}
	components, header, err := p.keyComponents(r.Key)
	if err != nil {
		return nil, err
	}
	if len(components) > len(p.keyPaths) || len(components) < len(p.keyPaths) && p.hash != epk.MultiHash {
		return nil, fmt.Errorf("partition key %s: %w: it has %d components; the container's key has %d", header, feed.ErrUnsupported, len(components),
			len(p.keyPaths))
	}
	low, high := p.hash.Prefix(components)
	if header == wire.NoKey {
		low, high = feed.MinEPK, "00"
	}
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

// keyComponents is the function keyComponents for a key of the container. If the container
// was created without a partition key, an undefined key has the header [wire.NoKey]. The
// service does not hash such a key: its effective partition key is the least one.
func (p *properties) keyComponents(key feed.PartitionKey) (components []epk.Component, header string, err error) {
	components, header, err = keyComponents(key)
	if p.systemKey && header == undefinedKey {
		header = wire.NoKey
	}
	return components, header, err
}

// undefinedKey is the header of a key whose only value is missing.
const undefinedKey = "[{}]"

// isHex reports whether a bound is upper-case hexadecimal.
func isHex(border string) bool { return strings.Trim(border, "0123456789ABCDEF") == "" }

// keyComponents returns the components of a key for hashing, and its header: JSON in
// ASCII.
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
		} // any other component is undefined, which is the zero Component
	}
	return components, wire.ASCII(text), nil
}

// address sets the headers of the target. It sends a range of keys only if that is
// smaller than the partition.
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

// route finds the partition of a request that names none. It is the only partition that
// holds keys of the request's range. If there are several, route returns a
// *feed.GoneError. If anew is true, route lists the partitions first; charge is the cost
// of that.
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
		case anew || cost > 0: // the list was read in this call
			return charge, &feed.GoneError{Range: t.keys}
		}
		anew = true
	}
}

// sessionOf returns the session token to send with a read of a partition. It is the
// latest of the tokens of earlier responses and of the options, or else of the
// partition's parents. It is empty if none is known, or if the consistency level has no
// sessions.
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
			return best // a token of a parent is used only if p has none
		}
	}
	return ""
}

// vectorOf returns the text that follows the partition's id in a session token.
func vectorOf(token, partition string) string {
	for part := range strings.SplitSeq(token, ",") {
		if id, vector, found := strings.Cut(strings.TrimSpace(part), ":"); found && id == partition {
			return vector
		}
	}
	return ""
}

// remember stores the session token of a response.
func (s *Source) remember(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	mergeSession(s.sessions, token)
}

// mergeSession adds a session token to the known ones, which are by partition. It keeps the
// known one of a partition if that is later.
func mergeSession(known map[string]string, token string) {
	for part := range strings.SplitSeq(token, ",") {
		id, vector, found := strings.Cut(strings.TrimSpace(part), ":")
		if !found {
			continue
		}
		lsn, ok := wire.SessionLSN(part, id)
		if was, old := wire.SessionLSN(id+":"+known[id], id); ok && (!old || lsn > was) {
			known[id] = vector
		}
	}
}

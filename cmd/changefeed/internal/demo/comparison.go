package demo

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/changefeed-go/changefeed/feed"
)

// comparison counts the differences between the records' container and its copy.
type comparison struct {
	compared, missing, wrong int
	// examples are texts that describe the first differences, at most maxExamples.
	examples []string
}

// maxExamples is the maximum number of differences that a report describes.
const maxExamples = 5

func (v *comparison) find(count *int, format string, args ...any) {
	*count++
	if len(v.examples) < maxExamples {
		v.examples = append(v.examples, fmt.Sprintf(format, args...))
	}
}

// compare reads both containers to their ends and compares each document of source with
// its copy. No client may write meanwhile.
func compare(ctx context.Context, d dataset, source, target container) (comparison, error) {
	var v comparison
	originals, err := digests(ctx, source)
	if err != nil {
		return v, err
	}
	copies, err := digests(ctx, target)
	if err != nil {
		return v, err
	}
	for _, r := range d.records {
		if _, has := originals[r.id]; !has {
			v.find(&v.missing, "record %s is not in %s", r.id, source.name())
		}
	}
	for _, id := range slices.Sorted(maps.Keys(originals)) {
		v.compared++
		original, twin := originals[id], copies[id]
		switch {
		case original.times > 1:
			v.find(&v.wrong, "document %s is in %s %d times", id, source.name(), original.times)
		case twin.times == 0:
			v.find(&v.missing, "document %s is not in %s", id, target.name())
		case twin.times > 1:
			v.find(&v.wrong, "document %s is in %s %d times", id, target.name(), twin.times)
		case twin.sum != original.sum:
			v.find(&v.wrong, "document %s is different in %s", id, target.name())
		}
	}
	for _, id := range slices.Sorted(maps.Keys(copies)) {
		if _, has := originals[id]; !has {
			v.find(&v.wrong, "document %s of %s is not in %s", id, target.name(), source.name())
		}
	}
	return v, nil
}

// digest is the hash of a document's content. It also counts the partition keys under
// which the container has a document of the same ID.
type digest struct {
	sum   [sha256.Size]byte
	times int
}

// digests reads all documents of a container, and returns their digests by ID. It reads
// the feed of latest versions, which has each document once.
func digests(ctx context.Context, c container) (map[string]digest, error) {
	found := make(map[string]digest)
	reader, err := feed.NewReader(c.source(), feed.ReaderConfig{Start: feed.Beginning(), MaxItems: 1000})
	if err != nil {
		return nil, err
	}
	for page, err := range reader.Pages(ctx) {
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", c.name(), err)
		}
		for _, change := range page.Changes {
			id, sum, err := digestOf(change.Current)
			if err != nil {
				return nil, fmt.Errorf("read %s: %w", c.name(), err)
			}
			found[id] = digest{sum: sum, times: found[id].times + 1}
		}
	}
	return found, nil
}

// digestOf returns a document's ID and the hash of all its members except the store's
// own, in the order of their names.
func digestOf(body []byte) (id string, sum [sha256.Size]byte, err error) {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(body, &object); err != nil {
		return "", sum, err
	}
	for _, own := range []string{"_rid", "_self", "_etag", "_attachments", "_ts", "_lsn"} {
		delete(object, own)
	}
	if err := json.Unmarshal(object["id"], &id); err != nil {
		return "", sum, err
	}
	content, err := json.Marshal(object)
	if err != nil {
		return "", sum, err
	}
	return id, sha256.Sum256(content), nil
}

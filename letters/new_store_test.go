package letters_test

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/letters"
)

// documents are in memory. after is called after each write.
type documents struct {
	docs  map[string]string
	etag  int
	after func(w letters.Write)
}

func (d *documents) Session(string) string { return "" }

func (d *documents) Read(_ context.Context, _, id string) ([]byte, error) {
	if text, found := d.docs[id]; found {
		return []byte(text), nil
	}
	return nil, feed.ErrNotFound
}

func (d *documents) Find(_ context.Context, s letters.Selection) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		for _, text := range d.docs {
			if s.Holds([]byte(text)) && !yield([]byte(text), nil) {
				return
			}
		}
	}
}

func (d *documents) Write(_ context.Context, w letters.Write) (string, error) {
	text, found := d.docs[w.ID]
	if w.Method == letters.Create && found {
		return "", letters.ErrExists
	}
	if w.ETag != "" && !strings.Contains(text, `"_etag":"`+w.ETag+`"`) {
		return "", letters.ErrChanged
	}
	d.etag++
	etag := strings.Repeat("e", d.etag)
	if w.Method == letters.Delete {
		delete(d.docs, w.ID)
	} else {
		d.docs[w.ID] = strings.TrimSuffix(string(w.Document), "}") + `,"_etag":"` + etag + `"}`
	}
	if after := d.after; after != nil {
		d.after = nil
		after(w)
	}
	return etag, nil
}

func largeLetter() letters.Letter {
	return letters.Letter{
		PartitionKey: feed.PartitionKey{"ada"}, Hash: "01", ItemID: "1", LSN: 1, State: letters.Dead,
		Current: json.RawMessage(`{"id":"1","text":"` + strings.Repeat("x", 100_000) + `"}`),
	}
}

// A host that got no answer to a put puts the letter again, while somebody deletes it. If the
// delete removed the parts of the second put, its letter would be a head without parts.
func TestDeleteSparesThePartsOfALetterThatIsPutAnew(t *testing.T) {
	ctx := t.Context()
	d := &documents{docs: map[string]string{}}
	s := letters.NewStore(letters.Key{Processor: "p", Source: feed.ContainerID{RID: "r"}}, d, 40_000)
	put := func() {
		t.Helper()
		if err := s.Put(ctx, largeLetter()); err != nil {
			t.Fatal(err)
		}
	}
	put()
	var l letters.Letter
	for found, err := range s.Read(ctx, letters.Query{}) {
		if err != nil {
			t.Fatal(err)
		}
		l = found
	}
	if l.Parts < 2 {
		t.Fatalf("the letter has %d parts", l.Parts)
	}
	d.after = func(letters.Write) { put() } // once the head is deleted
	if err := s.Delete(ctx, l); err != nil {
		t.Fatal(err)
	}
	got, err := s.Get(ctx, l.Group, l.ID)
	if err != nil || string(got.Current) != string(largeLetter().Current) {
		t.Errorf("after a delete beside a put the letter has %d bytes (%v)", len(got.Current), err)
	}
}

// A put that repeats an earlier one must not write the parts again, since somebody who deletes the
// letter at that moment could delete them before the head is written.
func TestRepeatedPutOfALargeLetterWritesNothing(t *testing.T) {
	ctx := t.Context()
	d := &documents{docs: map[string]string{}}
	s := letters.NewStore(letters.Key{Processor: "p", Source: feed.ContainerID{RID: "r"}}, d, 40_000)
	for range 2 {
		if err := s.Put(ctx, largeLetter()); err != nil {
			t.Fatal(err)
		}
		d.after = func(w letters.Write) { t.Errorf("a repeated put writes %s", w.ID) }
	}
}

func TestLetterOfAnUnknownOperationOrTypeIsNotDecoded(t *testing.T) {
	for _, text := range []string{`{"type":"letter","operation":"patch"}`, `{"type":"part"}`, `{"type":"letter","operation":"upsert","key":[[]]}`, `[`} {
		if l, err := letters.Decode([]byte(text)); err == nil {
			t.Errorf("%s is the letter %+v", text, l)
		}
	}
}

func TestErrorsHaveTheirClass(t *testing.T) {
	if err := letters.CheckContainer("c", nil, 0); !errors.Is(err, feed.ErrMisconfigured) || !strings.Contains(err.Error(), "partitioned by nothing") {
		t.Error(err)
	}
	if err := letters.CheckContainer("c", []string{"/pk"}, -1); err != nil {
		t.Error(err)
	}
}

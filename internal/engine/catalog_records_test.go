package engine_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/storetype"
)

// recordsStore opens the store in the directory db of fs, without a purge. The caller
// closes it.
func recordsStore(t *testing.T, fs vfs.FS) *engine.DB {
	t.Helper()
	db, err := engine.Open("db", engine.Options{FS: fs, PurgeInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func closeChecked(t *testing.T, db *engine.DB) {
	t.Helper()
	if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
		t.Error(err)
	}
}

func TestRecordsKeepNameAndNumberOverARestart(t *testing.T) {
	fs := vfs.NewMem()
	db := recordsStore(t, fs)
	for _, name := range []string{"shop", "other"} {
		if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: name}); err != nil {
			t.Fatal(err)
		}
	}
	ada, err := db.CreateRecord(t.Context(), "shop", engine.Record{Name: "ada", Value: json.RawMessage(odd)})
	if err != nil || ada.Number != 1 || ada.ETag == "" || ada.Modified.IsZero() || string(ada.Value) != odd {
		t.Fatalf("%+v, %v", ada, err)
	}
	bob, err := db.CreateRecord(t.Context(), "shop", engine.Record{Name: "bob", Value: json.RawMessage(`1`)})
	if err != nil || bob.Number != 2 {
		t.Fatalf("%+v, %v", bob, err)
	}
	renamed, err := db.ReplaceRecord(t.Context(), "shop", "bob", engine.Record{Name: "robert", Value: json.RawMessage(`2`), ETag: bob.ETag})
	if err != nil || renamed.Number != bob.Number || renamed.ETag == bob.ETag {
		t.Fatalf("%+v, %v", renamed, err)
	}
	closeChecked(t, db)

	db = recordsStore(t, fs)
	defer closeChecked(t, db)
	all, err := db.Records(t.Context(), "shop")
	if err != nil || len(all) != 2 || string(all[0].Value) != odd || all[1].Name != "robert" {
		t.Errorf("after a restart there are %+v, %v", all, err)
	}
	for name, number := range map[string]uint32{"ada": 1, "robert": 2} {
		one, err := db.Record(t.Context(), "shop", name)
		same, byNumber := db.RecordByNumber(t.Context(), "shop", number)
		if err != nil || byNumber != nil || one.Number != number || same.Name != name || one.ETag != same.ETag {
			t.Errorf("%s: %+v, %v; number %d: %+v, %v", name, one, err, number, same, byNumber)
		}
		if _, err := db.RecordByNumber(t.Context(), "other", number); !errors.Is(err, feed.ErrNotFound) {
			t.Errorf("record %d is in another database too: %v", number, err)
		}
	}
	if _, err := db.Record(t.Context(), "shop", "bob"); !errors.Is(err, feed.ErrNotFound) {
		t.Errorf("the old name: %v", err)
	}
	if next, err := db.CreateRecord(t.Context(), "other", engine.Record{Name: "bob", Value: json.RawMessage(`3`)}); err != nil || next.Number != 3 {
		t.Errorf("the next record: %+v, %v", next, err)
	}
}

func TestRefusedRecordsHaveDistinctErrors(t *testing.T) {
	db := recordsStore(t, vfs.NewMem())
	defer closeChecked(t, db)
	if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "shop"}); err != nil {
		t.Fatal(err)
	}
	one := json.RawMessage(`1`)
	create := func(database, name string, value json.RawMessage) error {
		_, err := db.CreateRecord(t.Context(), database, engine.Record{Name: name, Value: value})
		return err
	}
	replace := func(name, as, etag string) error {
		_, err := db.ReplaceRecord(t.Context(), "shop", name, engine.Record{Name: as, Value: one, ETag: etag})
		return err
	}
	if err := errors.Join(create("shop", "a", one), create("shop", "b", one)); err != nil {
		t.Fatal(err)
	}
	for what, c := range map[string]struct{ err, want error }{
		"a duplicate name":         {create("shop", "a", one), storetype.ErrConflict},
		"a missing database":       {create("none", "a", one), feed.ErrNotFound},
		"a rename to a taken name": {replace("a", "b", ""), storetype.ErrConflict},
		"replace a missing record": {replace("c", "c", ""), feed.ErrNotFound},
		"replace an old version":   {replace("a", "a", `"old"`), storetype.ErrPreconditionFailed},
		"delete an old version":    {db.DeleteRecord(t.Context(), "shop", "a", `"old"`), storetype.ErrPreconditionFailed},
		"delete a missing record":  {db.DeleteRecord(t.Context(), "shop", "c", ""), feed.ErrNotFound},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v", what, c.err)
		}
	}
	for what, err := range map[string]error{
		"an empty name": create("shop", "", one), "a name with a slash": create("shop", "a/b", one),
		"no value": create("shop", "c", nil), "no JSON": create("shop", "c", json.RawMessage("{")),
	} {
		if bad := (*storetype.BadRequestError)(nil); !errors.As(err, &bad) {
			t.Errorf("%s: %v", what, err)
		}
	}
	long := json.RawMessage(`"` + strings.Repeat("x", engine.MaxExtraSize) + `"`)
	if large := (*storetype.TooLargeError)(nil); !errors.As(create("shop", "c", long), &large) {
		t.Error("a record beyond the limit is accepted")
	}
}

func TestRecordsAreDeletedWithTheirDatabase(t *testing.T) {
	db := recordsStore(t, vfs.NewMem())
	defer closeChecked(t, db)
	for range 2 {
		if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "shop"}); err != nil {
			t.Fatal(err)
		}
		if all, err := db.Records(t.Context(), "shop"); err != nil || len(all) != 0 {
			t.Errorf("a new database has records %+v, %v", all, err)
		}
		// Eight goroutines create records while another one deletes the database. So the
		// sequencer carries out some creations in the same group as the deletion.
		var writers sync.WaitGroup
		for i := range 8 {
			writers.Go(func() {
				_, err := db.CreateRecord(t.Context(), "shop", engine.Record{Name: fmt.Sprint(i), Value: json.RawMessage(`1`)})
				if err != nil && !errors.Is(err, feed.ErrNotFound) {
					t.Error(err)
				}
			})
		}
		writers.Go(func() {
			if err := db.DeleteDatabase(t.Context(), "shop"); err != nil {
				t.Error(err)
			}
		})
		writers.Wait()
	}
}

// Eight goroutines create, rename and delete records at random, with only five names. No
// two stored records may have the same name. Every acknowledged creation and deletion
// must have taken effect.
func TestRacingWritersOfRecordsAgreeOnNames(t *testing.T) {
	db := recordsStore(t, vfs.NewMem())
	defer closeChecked(t, db)
	if _, err := db.CreateDatabase(t.Context(), storetype.DatabaseProperties{ID: "shop"}); err != nil {
		t.Fatal(err)
	}
	var (
		writers sync.WaitGroup
		mu      sync.Mutex // guards made and gone
		made    int
		gone    int
	)
	for w := range 8 {
		writers.Go(func() {
			draw := rand.New(rand.NewPCG(uint64(w), 1))
			name := func() string { return fmt.Sprint("n", draw.IntN(5)) }
			for range 60 {
				var err error
				r := engine.Record{Name: name(), Value: json.RawMessage(`1`)}
				kind := draw.IntN(3)
				switch kind {
				case 0:
					_, err = db.CreateRecord(t.Context(), "shop", r)
				case 1:
					_, err = db.ReplaceRecord(t.Context(), "shop", name(), r)
				default:
					err = db.DeleteRecord(t.Context(), "shop", name(), "")
				}
				if err != nil {
					if !errors.Is(err, storetype.ErrConflict) && !errors.Is(err, feed.ErrNotFound) {
						t.Error(err)
					}
					continue
				}
				mu.Lock()
				switch kind {
				case 0:
					made++
				case 2:
					gone++
				}
				mu.Unlock()
			}
		})
	}
	writers.Wait()
	all, err := db.Records(t.Context(), "shop")
	if err != nil || len(all) != made-gone || made == 0 || gone == 0 {
		t.Fatalf("%d records were created and %d deleted, but %d are present, %v", made, gone, len(all), err)
	}
	var names []string
	for _, r := range all {
		names = append(names, r.Name)
	}
	slices.Sort(names)
	if len(slices.Compact(slices.Clone(names))) != len(names) {
		t.Errorf("the names %q contain a duplicate", names)
	}
}

package store

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/engine"
	"github.com/changefeed-go/changefeed/letters"
	"github.com/changefeed-go/changefeed/storetype"
)

// Letters returns the letters container over c, which must be partitioned by
// [letters.KeyPath] and must not let items expire by default. Each letter is an ordinary item
// in c, or several if it is large.
func (db *DB) Letters(c *Container) Letters { return Letters{db, c} }

// Letters is a [letters.Container], which [DB.Letters] returns. It is safe for concurrent use.
type Letters struct {
	db *DB
	c  *Container
}

// Open implements [letters.Container].
func (l Letters) Open(ctx context.Context, k letters.Key) (letters.Store, error) {
	p, err := l.c.Properties(ctx)
	if err == nil {
		err = letters.CheckContainer(p.ID, p.KeyPaths, p.DefaultTTL)
	}
	if err != nil {
		return nil, err
	}
	return letters.NewStore(k, &letterDocuments{Letters: l}, storetype.MaxDocumentSize), nil
}

// letterDocuments implements [letters.Documents].
type letterDocuments struct {
	Letters
	engine.Charges
}

// ContainerID implements [feed.Identifier].
func (d *letterDocuments) ContainerID(ctx context.Context) (feed.ContainerID, error) {
	source, is := d.db.Source(d.c).(feed.Identifier)
	if !is {
		return feed.ContainerID{}, feed.ErrUnsupported
	}
	return source.ContainerID(ctx)
}

// Session implements [letters.Documents]. Every read sees every write.
func (d *letterDocuments) Session(string) string { return "" }

// Read implements [letters.Documents].
func (d *letterDocuments) Read(ctx context.Context, pk, id string) ([]byte, error) {
	r, err := d.c.Read(ctx, feed.PartitionKey{pk}, id, storetype.ReadOptions{})
	d.Add(r.Charge)
	return r.Body, err
}

// Write implements [letters.Documents].
func (d *letterDocuments) Write(ctx context.Context, w letters.Write) (etag string, err error) {
	if err := ctx.Err(); err != nil {
		return "", err
	}
	key, o := feed.PartitionKey{w.PK}, storetype.WriteOptions{IfMatch: w.ETag, NoBody: true}
	var r storetype.Result
	switch w.Method {
	case letters.Create:
		r, err = d.c.Create(ctx, key, w.Document, o)
	case letters.Upsert:
		r, err = d.c.Upsert(ctx, key, w.Document, o)
	case letters.Replace:
		r, err = d.c.Replace(ctx, key, w.ID, w.Document, o)
	case letters.Delete:
		r, err = d.c.Delete(ctx, key, w.ID, o)
	}
	d.Add(r.Charge)
	switch {
	case errors.Is(err, storetype.ErrConflict):
		return "", letters.ErrExists
	case errors.Is(err, storetype.ErrPreconditionFailed):
		return "", letters.ErrChanged
	}
	return r.ETag, err
}

// Find implements [letters.Documents]. Without a partition key it reads the whole container.
func (d *letterDocuments) Find(ctx context.Context, s letters.Selection) iter.Seq2[json.RawMessage, error] {
	return func(yield func(json.RawMessage, error) bool) {
		var r storetype.ItemsRequest
		if s.PK != "" {
			r.Key = feed.PartitionKey{s.PK}
		}
		for {
			page, err := d.c.Items(ctx, r)
			d.Add(page.Charge)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, item := range page.Items {
				if s.Holds(item.Body) && !yield(item.Body, nil) {
					return
				}
			}
			if r.Continuation = page.Continuation; r.Continuation == "" {
				return
			}
		}
	}
}

var (
	_ letters.Container = Letters{}
	_ letters.Documents = (*letterDocuments)(nil)
	_ feed.Identifier   = (*letterDocuments)(nil)
)

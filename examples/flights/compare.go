package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"strconv"

	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
)

// difference contains the numbers of compared documents and of each kind of difference.
type difference struct {
	compared, missing, other, doubled, extra int
}

func (d difference) none() bool { return d.missing+d.other+d.doubled+d.extra == 0 }

func (d difference) String() string {
	return fmt.Sprintf("%d documents compared: %d missing, %d different, %d doubled, %d that the source does not have",
		d.compared, d.missing, d.other, d.doubled, d.extra)
}

// compare reads both containers completely, and compares all documents without their
// system properties. To save memory, it keeps only a hash of each document, at the index
// of its row.
func (a account) compare(ctx context.Context, database, from, to string, rows int) (difference, error) {
	opened, err := a.open()
	if err != nil {
		return difference{}, err
	}
	seed := maphash.MakeSeed()
	type seen struct {
		sum   uint64
		times uint8
	}
	read := func(container string) (all []seen, extra int, err error) {
		all = make([]seen, rows)
		source := opened.Source(database, container, cosmos.SourceOptions{})
		reader, err := feed.NewReader(source, feed.ReaderConfig{Start: feed.Beginning(), MaxItems: 1000, Parallel: 2})
		if err != nil {
			return nil, 0, err
		}
		for page, err := range reader.Pages(ctx) {
			if err != nil {
				return nil, 0, err
			}
			for _, change := range page.Changes {
				row, sum, err := digest(seed, change.Current)
				if err != nil {
					return nil, 0, err
				}
				if row < 0 || row >= rows {
					extra++
					continue
				}
				all[row].sum = sum
				all[row].times++
			}
		}
		return all, extra, nil
	}
	source, more, err := read(from)
	if err != nil {
		return difference{}, err
	}
	target, extra, err := read(to)
	if err != nil {
		return difference{}, err
	}
	d := difference{extra: more + extra}
	for row := range rows {
		switch s, t := source[row], target[row]; {
		case s.times != 1:
			return d, fmt.Errorf("the source has %d documents of row %d", s.times, row)
		case t.times == 0:
			d.missing++
		case t.times > 1:
			d.doubled++
		case s.sum != t.sum:
			d.other++
		}
		d.compared++
	}
	return d, nil
}

// digest returns the row number of a document, and a hash of its members. It omits the
// system properties, which are the last members.
func digest(seed maphash.Seed, document json.RawMessage) (row int, sum uint64, err error) {
	end := bytes.Index(document, []byte(`,"_rid":`))
	if end < 0 {
		return 0, 0, fmt.Errorf("%s: no system properties", document)
	}
	id, err := feed.Change{Current: document}.ID()
	if err != nil {
		return 0, 0, err
	}
	if row, err = strconv.Atoi(id); err != nil {
		return 0, 0, err
	}
	return row, maphash.Bytes(seed, document[:end]), nil
}

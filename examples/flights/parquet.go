package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/parquet-go/parquet-go"
)

// flight is one row of the Parquet file, with the columns of vega-datasets 3.2.1.
type flight struct {
	Date        int64  `parquet:"date,optional"` // microseconds since 1970
	Delay       int64  `parquet:"delay,optional"`
	Distance    int64  `parquet:"distance,optional"`
	Origin      string `parquet:"origin,optional"`
	Destination string `parquet:"destination,optional"`
}

// appendJSON appends the JSON document of a flight to dst. Its id is the row number. The
// airports' codes consist of letters, so no string needs escapes.
func (f flight) appendJSON(dst []byte, row int) []byte {
	at := time.UnixMicro(f.Date).UTC().Format(time.RFC3339)
	return fmt.Appendf(dst, `{"id":"%d","date":%q,"delay":%d,"distance":%d,"origin":%q,"destination":%q}`,
		row, at, f.Delay, f.Distance, f.Origin, f.Destination)
}

// flights calls each for each row of a Parquet file in order. It stops after limit rows,
// unless limit is 0.
func flights(name string, limit int, each func(row int, f flight) error) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // it was only read
	rows := parquet.NewGenericReader[flight](file)
	defer func() { _ = rows.Close() }()
	buf := make([]flight, 1000)
	for row := 0; ; {
		n, err := rows.Read(buf)
		for _, f := range buf[:n] {
			if limit > 0 && row == limit {
				return nil
			}
			if err := each(row, f); err != nil {
				return err
			}
			row++
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: row %d: %w", name, row, err)
		}
	}
}

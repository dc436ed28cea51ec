package engine

import "math"

// Request unit (RU) charges. What the service documents ("Optimize request cost in
// Azure Cosmos DB", at session consistency) are two points of each: a point read of
// 1 KB costs 1 RU and of 100 KB 10 RU, a write of 1 KB 5 RU and of 100 KB 50 RU. The
// formulas are the straight line through them, and the value of 1 KB below it, cut to hundredths.
// The service charges for indexing and consistency beside; the store has neither.
const (
	chargeKB       = 1024
	readBase       = 1.0
	readPerKB      = (10.0 - 1.0) / (100 - 1)
	writeReadRatio = 5.0
)

// readCharge is the charge of a point read of an item of size bytes, or of one
// that finds nothing (0).
func readCharge(size int) float64 { return hundredths(readUnits(size)) }

// writeCharge is the charge of a create, replace or delete of an item of size
// bytes; of a replace, the larger of old and new.
func writeCharge(size int) float64 { return hundredths(writeReadRatio * readUnits(size)) }

// pageCharge is the charge of a page of a feed with this many bytes in all: that
// of one read of them.
func pageCharge(size int) float64 { return readCharge(size) }

func readUnits(size int) float64 {
	return readBase + readPerKB*max(0, float64(size)/chargeKB-1)
}

func hundredths(ru float64) float64 { return math.Round(ru*100) / 100 }

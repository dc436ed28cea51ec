package store

// Request unit charges. The documented figures (Azure Cosmos DB, "Optimize
// request cost"): a point read of 1 KB costs 1 RU and of 100 KB 10 RU; a write of 1 KB
// 5 RU and of 100 KB 50 RU.

// readCharge is the charge of a point read of an item of size bytes; also of one that
// finds nothing (size 0).
func readCharge(size int) float64 { panic("to do") }

// writeCharge is the charge of a create, replace or delete of an item of size bytes (a
// replace: the larger of old and new).
func writeCharge(size int) float64 { panic("to do") }

// pageCharge is the charge of a page of a feed, of bytes in all.
func pageCharge(bytes int) float64 { panic("to do") }

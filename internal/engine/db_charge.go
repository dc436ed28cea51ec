package engine

import (
	"bytes"
	"math"
	"sync/atomic"
)

// Request unit (RU) charges. They follow charges that were recorded of the service, which are
// multiples of 1/21 RU for items of less than a kilobyte. The service documents how charges
// grow with the size, in "Optimize request cost in Azure Cosmos DB": a point read of 1 KB costs
// 1 RU, and of 100 KB 10 RU, and a write ten times as much. So beyond a kilobyte every charge
// grows by 1/11 for each further one.
const (
	chargeUnits = 21.0
	chargeKB    = 1024
	perKB       = (10.0 - 1.0) / (100 - 1)

	// A create costs createBase and termWeight for each index term, and uniqueWeight for each
	// unique key. A replace costs replaceBase and termWeight for each term that it removes or
	// adds.
	createBase, replaceBase, termWeight, uniqueWeight = 108, 216, 4, 31
	// assumedTerms is the number of terms that a replace or a patch is assumed to change unless
	// the caller asks for the exact charge: those of one scalar.
	assumedTerms = 2
	// nestedTerm is the weight of an object or an array within a document. An empty one weighs
	// 1, and a scalar 2.
	nestedTerm = 1.5
	// deleteWeight is the charge of a delete, as recorded for an item of four members.
	deleteWeight = 140
	// FailedCharge is the charge of a write that changed nothing. A conflict costs a quarter of
	// its create.
	FailedCharge  = 26 / chargeUnits
	conflictShare = 0.25
)

// readCharge returns the charge of a point read of an item of size bytes. For a read that
// finds no item, size is 0.
func readCharge(size int) float64 { return 1 + perKB*max(0, float64(size)/chargeKB-1) }

// createCharge returns the charge of creating an item of size bytes whose text is body, in a
// container with a number of unique keys.
func createCharge(body []byte, size, unique int) float64 {
	return (createBase + termWeight*indexTerms(body) + uniqueWeight*float64(unique)) / chargeUnits * readCharge(size)
}

// replaceCharge and deleteCharge return the charges of replacing and deleting an item. terms is
// the number of index terms that go or come. size is the larger of the item's sizes before and
// after, in bytes.
func replaceCharge(terms float64, size int) float64 {
	return (replaceBase + termWeight*terms) / chargeUnits * readCharge(size)
}

func deleteCharge(size int) float64 { return deleteWeight / chargeUnits * readCharge(size) }

// indexTerms returns the number of index terms of a document: 2 for each scalar. An object or
// an array within it adds 1.5, or 1 if it is empty, which fits the recorded charges of nested
// items. body is canonical JSON, and may lack the closing brace.
func indexTerms(body []byte) float64 {
	const scalar, empty = 2, 1
	terms := 0.0
	for i := 1; i < len(body); {
		c := body[i]
		switch i = endOfToken(body, i); c {
		case '{', '[':
			if i < len(body) && (body[i] == '}' || body[i] == ']') {
				terms += empty
			} else {
				terms += nestedTerm
			}
		case '}', ']', ',', ':':
		default:
			if i >= len(body) || body[i] != ':' { // otherwise it is a name
				terms += scalar
			}
		}
	}
	return terms
}

// endOfToken returns the offset after the token that begins at an offset of a canonical JSON
// text.
func endOfToken(body []byte, at int) int {
	switch body[at] {
	case '"':
		return endOfString(body, at)
	case '{', '[', '}', ']', ',', ':':
		return at + 1
	}
	for at++; at < len(body) && bytes.IndexByte([]byte(",]}"), body[at]) < 0; {
		at++
	}
	return at
}

// endOfString returns the offset after the string that begins at an offset of a JSON text.
func endOfString(body []byte, at int) int {
	for i := at + 1; ; i++ {
		n := bytes.IndexByte(body[i:], '"') // many times faster than a loop over the bytes
		if n < 0 {
			return len(body)
		}
		i += n
		escapes := i
		for body[escapes-1] == '\\' {
			escapes--
		}
		if (i-escapes)%2 == 0 {
			return i + 1
		}
	}
}

// Charges adds up the charges of requests. It is safe for concurrent use.
type Charges struct {
	hundredths atomic.Int64 // of a request unit
}

// Add adds the charge of a request.
func (c *Charges) Add(charge float64) { c.hundredths.Add(int64(math.Round(charge * 100))) }

// Charged returns the sum; see [lease.Store].
func (c *Charges) Charged() float64 { return float64(c.hundredths.Load()) / 100 }

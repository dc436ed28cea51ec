package engine

import "bytes"

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
	// changedTerms is the estimate of the terms that a replace or a patch changes: those of one
	// scalar. To compare with the old item, every write would have to read it first.
	changedTerms = 2
	// deleteWeight is the charge of a delete, as recorded for an item of four members.
	deleteWeight = 140
	// failedCharge is the charge of a write that changed nothing. A conflict costs a quarter of
	// its create.
	failedCharge  = 26 / chargeUnits
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

// replaceCharge and deleteCharge return the charges of replacing and deleting an item. size is
// the larger of its sizes before and after, in bytes.
func replaceCharge(size int) float64 {
	return (replaceBase + termWeight*changedTerms) / chargeUnits * readCharge(size)
}

func deleteCharge(size int) float64 { return deleteWeight / chargeUnits * readCharge(size) }

// indexTerms returns the number of index terms of a document: 2 for each scalar. An object or
// an array within it adds 1.5, or 1 if it is empty, which fits the recorded charges of nested
// items. body is canonical JSON, and may lack the closing brace.
func indexTerms(body []byte) float64 {
	const scalar, nested, empty = 2, 1.5, 1
	terms, i := 0.0, 1
	for i < len(body) {
		switch c := body[i]; c {
		case '"':
			i = endOfString(body, i)
			if i >= len(body) || body[i] != ':' { // otherwise it is a name
				terms += scalar
			}
			continue
		case '{', '[':
			if i+1 < len(body) && (body[i+1] == '}' || body[i+1] == ']') {
				terms += empty
			} else {
				terms += nested
			}
		case '}', ']', ',', ':':
		default:
			terms += scalar
			for i+1 < len(body) && bytes.IndexByte([]byte(",]}"), body[i+1]) < 0 {
				i++
			}
		}
		i++
	}
	return terms
}

// endOfString returns the offset after the string that begins at an offset of a JSON text.
func endOfString(body []byte, at int) int {
	for i := at + 1; i < len(body); i++ {
		switch body[i] {
		case '\\':
			i++
		case '"':
			return i + 1
		}
	}
	return len(body)
}

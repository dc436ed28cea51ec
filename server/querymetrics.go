package server

import (
	"encoding/base64"
	"fmt"
	"time"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// Metrics of a query, for clients that ask for them: azcosmos always does, the others by an option.
//
// Supported: what was looked at and what came of it, and the time of the whole. There is no index to look things up in
// and no optimizer, so their times are zero, and the index metrics say that no index was used.

// queryMetrics is what a page of a query took.
type queryMetrics struct {
	began   time.Time
	looked  int
	looking int // bytes of the documents looked at
}

// text is the value of the header, in the form that the service and its SDKs give it.
func (m *queryMetrics) text(rows, bytes int) string {
	ratio := 1.0
	if m.looked > 0 {
		ratio = float64(rows) / float64(m.looked)
	}
	took := float64(time.Since(m.began).Microseconds()) / 1000
	return fmt.Sprintf("totalExecutionTimeInMs=%.2f;queryCompileTimeInMs=0.00;queryLogicalPlanBuildTimeInMs=0.00;queryPhysicalPlanBuildTimeInMs=0.00;"+
		"queryOptimizationTimeInMs=0.00;VMExecutionTimeInMs=%.2f;indexLookupTimeInMs=0.00;documentLoadTimeInMs=0.00;systemFunctionExecuteTimeInMs=0.00;"+
		"userFunctionExecuteTimeInMs=0.00;retrievedDocumentCount=%d;retrievedDocumentSize=%d;outputDocumentCount=%d;outputDocumentSize=%d;"+
		"writeOutputTimeInMs=0.00;indexUtilizationRatio=%.2f", took, took, m.looked, m.looking, rows, bytes, min(ratio, 1))
}

// noIndexes are the index metrics of every query here.
const noIndexes = `{"UtilizedSingleIndexes":[],"PotentialSingleIndexes":[],"UtilizedCompositeIndexes":[],"PotentialCompositeIndexes":[]}`

// tellMetrics puts the metrics that the request asks for into the answer's headers.
func (x *exchange) tellMetrics(run *queryRun) {
	h := x.w.Header()
	if x.flag(wire.HeaderPopulateQueryMetrics) {
		h.Set(wire.HeaderQueryMetrics, run.metrics.text(run.count, len(run.page)))
	}
	if x.flag(wire.HeaderPopulateIndexMetrics) {
		h.Set(wire.HeaderIndexMetrics, base64.StdEncoding.EncodeToString([]byte(noIndexes)))
	}
}

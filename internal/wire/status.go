package wire

import "encoding/json"

// StatusRetryWith is the service's status 449, for which net/http has no name: the write conflicted
// with another write, and the client is to send the same request again.
const StatusRetryWith = 449

// The values of [HeaderSubStatus].
const (
	SubNone                    = 0
	SubPartitionKeyMismatch    = 1001 // with 400
	SubCrossPartitionQuery     = 1004 // with 400: the client must request the plan
	SubIncorrectContainer      = 1024 // with 400: the container has another rid
	SubReadSessionNotAvailable = 1002 // with 404
	SubNotFinite               = 4001 // with 400: a result of a query is infinite or NaN
	SubNameCacheStale          = 1000 // with 410: the name now belongs to another container
	SubPartitionGone           = 1002 // with 410: split or merged
	SubCompletingSplit         = 1007 // with 410
	SubCompletingMigration     = 1008 // with 410
	SubThroughput              = 3200 // with 429: the provisioned throughput is used up
	SubBatchResponseTooLarge   = 3402 // with 413
	SubRBACDenied              = 5300 // with 403: an AAD principal lacks the permission
)

// ErrorBody is the body of every response with a status of at least 400. SDKs always
// parse it.
type ErrorBody struct {
	Code    string `json:"code"`
	Message string `json:"message,omitempty"`
	// AdditionalErrorInfo is the plan, as JSON text, of a query that the client must send
	// to each partition.
	AdditionalErrorInfo string `json:"additionalErrorInfo,omitempty"`
}

// JSON returns the encoded body.
func (b ErrorBody) JSON() []byte {
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // strings can always be encoded
	}
	return text
}

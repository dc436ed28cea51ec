package wire

import "encoding/json"

// Sub-statuses: what [HeaderSubStatus] says beside the status.
const (
	SubNone                    = 0
	SubPartitionKeyMismatch    = 1001 // with 400
	SubCrossPartitionQuery     = 1004 // with 400: ask for the plan
	SubIncorrectContainer      = 1024 // with 400: the rid isn't the container's
	SubReadSessionNotAvailable = 1002 // with 404
	SubOwnerNotFound           = 1003 // with 404: what is above the item is missing; see below
	SubNameCacheStale          = 1000 // with 410: the name is another container now
	SubPartitionGone           = 1002 // with 410: split or merged
	SubCompletingSplit         = 1007 // with 410
	SubCompletingMigration     = 1008 // with 410
	SubThroughput              = 3200 // with 429: the provisioned throughput is used up
	SubBatchResponseTooLarge   = 3402 // with 413
	SubRBACDenied              = 5300 // with 403: an AAD principal lacks the permission
)

// A missing container is answered with 404/1003 in TCP mode. Over HTTP, a gateway may answer a request for one of its
// items with 404/0, as for a missing item. So 1003 proves that the owner is missing, and 0 proves nothing.

// ErrorBody is the body of every answer with a status of 400 and more. SDKs parse
// it without asking, so there always is one.
type ErrorBody struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	// AdditionalErrorInfo is the plan, as a JSON text, of a query that has to be asked of each partition.
	AdditionalErrorInfo string `json:"additionalErrorInfo,omitempty"`
}

// JSON is the body as it is sent.
func (b ErrorBody) JSON() []byte {
	text, err := json.Marshal(b)
	if err != nil {
		panic(err) // strings can always be written
	}
	return text
}

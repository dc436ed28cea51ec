package connect

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// Keys makes the partition keys of requests to a lease container, which is partitioned by
// one text or was created without a partition key. azcosmos does not support the latter.
type Keys struct {
	// None reports whether the container was created without a partition key.
	None bool
}

// KeysOf returns the Keys of the container that azcosmos has read with the answer r.
func KeysOf(r *http.Response) (Keys, error) {
	body, err := runtime.Payload(r)
	if err != nil {
		return Keys{}, err
	}
	var container struct{ PartitionKey struct{ SystemKey bool } }
	err = json.Unmarshal(body, &container)
	return Keys{container.PartitionKey.SystemKey}, err
}

// Of returns the context and the partition key of a request for a document. value is the
// document's key in a container that has one.
func (k Keys) Of(ctx context.Context, value string) (context.Context, azcosmos.PartitionKey) {
	if !k.None {
		return ctx, azcosmos.NewPartitionKeyString(value)
	}
	return policy.WithHTTPHeader(ctx, http.Header{wire.HeaderPartitionKey: {wire.NoKey}}), azcosmos.NewPartitionKey()
}

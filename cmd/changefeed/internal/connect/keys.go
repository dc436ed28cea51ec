package connect

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/feed"
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
	if k.None {
		return withHeader(ctx, wire.NoKey)
	}
	return Keyed(ctx, feed.PartitionKey{value})
}

// Keyed returns the context and the partition key of a request by azcosmos for a document
// with this key. The key is in the context, as a header that replaces azcosmos's. azcosmos
// itself quotes texts as Go does, which is not JSON if they have control characters or
// characters beyond U+FFFF, and it knows no undefined keys.
func Keyed(ctx context.Context, key feed.PartitionKey) (context.Context, azcosmos.PartitionKey) {
	return withHeader(ctx, wire.ASCII(key.String()))
}

func withHeader(ctx context.Context, key string) (context.Context, azcosmos.PartitionKey) {
	return policy.WithHTTPHeader(ctx, http.Header{wire.HeaderPartitionKey: {key}}), azcosmos.NewPartitionKey()
}

// ID returns the id of a database or container to create in the form that azcosmos needs:
// escaped as in a JSON text, into which azcosmos puts it as it is.
func ID(id string) string {
	quoted, _ := jsontext.AppendQuote(nil, id) // its error is about UTF-8, which it replaces
	return string(quoted[1 : len(quoted)-1])
}

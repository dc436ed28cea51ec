package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// documents reads and writes documents of a container by id, with azcosmos.
//
// Everything goes to the account's write region, and preferred regions are ignored. A
// conditional write needs a read from the same region, and all hosts must use the same
// one.
type documents struct {
	account             *Account
	database, container string

	mu     sync.Mutex // guards client
	client *azcosmos.Client
}

// open returns the client of azcosmos and creates it at the first use. Before that it
// requests the account within ctx. azcosmos does the same in its first call, but ignores
// the call's context: if the account does not respond, it waits for up to a minute.
func (d *documents) open(ctx context.Context) (*azcosmos.Client, error) {
	d.mu.Lock()
	client := d.client
	d.mu.Unlock()
	if client != nil {
		return client, nil
	}
	if _, err := d.account.client.topology(ctx); err != nil {
		return nil, err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client != nil {
		return d.client, nil
	}
	client, err := d.account.newDocumentClient()
	if err != nil {
		return nil, fmt.Errorf("create a client of azcosmos: %w", err)
	}
	d.client = client
	return client, nil
}

// drop makes the next call create a new client of azcosmos. azcosmos 1.5.0 keeps a
// failure to read the account's regions for five minutes, and fails every call with it.
func (d *documents) drop(client *azcosmos.Client) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.client == client {
		d.client = nil
		client.Close()
	}
}

// newDocumentClient returns a client of azcosmos with the account's options.
func (a *Account) newDocumentClient() (*azcosmos.Client, error) {
	o := &azcosmos.ClientOptions{ClientOptions: a.options.ClientOptions}
	o.PerRetryPolicies = append(append([]policy.Policy(nil), o.PerRetryPolicies...), exchangePolicy{})
	if a.options.LimitToEndpoint {
		o.Transport = fixedHost{a.options.Transport, a.endpoint.Host}
	}
	if tokens, ok := a.auth.(*tokenAuth); ok {
		return azcosmos.NewClient(a.Endpoint(), sharedToken{tokens}, o)
	}
	key, err := azcosmos.NewKeyCredential(*a.key)
	if err != nil {
		return nil, err
	}
	return azcosmos.NewClientWithKey(a.Endpoint(), key, o)
}

// sharedToken gives azcosmos the token of the account's other requests. Its scope may
// differ from the one that azcosmos would request.
type sharedToken struct{ auth *tokenAuth }

// GetToken implements [azcore.TokenCredential].
func (s sharedToken) GetToken(ctx context.Context, _ policy.TokenRequestOptions) (azcore.AccessToken, error) {
	if _, err := s.auth.get(ctx); err != nil {
		return azcore.AccessToken{}, err
	}
	s.auth.mu.Lock()
	defer s.auth.mu.Unlock()
	return s.auth.token, nil
}

// fixedHost sends every request to one host. Without it azcosmos uses the account's
// regions.
type fixedHost struct {
	policy.Transporter
	host string
}

// Do implements [policy.Transporter].
func (f fixedHost) Do(r *http.Request) (*http.Response, error) {
	r.URL.Host, r.Host = f.host, f.host
	return f.Transporter.Do(r)
}

// exchange describes one call of azcosmos: its partition key, and the number of attempts,
// which the response does not show.
type exchange struct {
	// key is the partition key header to send. It replaces the header of azcosmos 1.5.0,
	// which is invalid JSON if the key has control characters or characters beyond
	// U+FFFF.
	key string
	// sent is the number of attempts so far. If there were several, an earlier attempt
	// may have succeeded and be the cause of a refusal.
	sent atomic.Int32
}

type exchangeKey struct{}

// again reports whether azcosmos has sent the request more than once.
func (x *exchange) again() bool { return x.sent.Load() > 1 }

// exchangePolicy counts the attempts of a call and sets its partition key. It runs inside
// of azcore's retries, so it sees every attempt.
type exchangePolicy struct{}

// Do implements [policy.Policy].
func (exchangePolicy) Do(r *policy.Request) (*http.Response, error) {
	raw := r.Raw()
	// Other requests, with which azcosmos reads the account, have no exchange and do not
	// count.
	x, ok := raw.Context().Value(exchangeKey{}).(*exchange)
	if ok && strings.HasPrefix(raw.URL.Path, "/dbs/") {
		x.sent.Add(1)
		if x.key != "" && raw.Header.Get(wire.HeaderPartitionKey) != "" {
			raw.Header.Set(wire.HeaderPartitionKey, x.key)
		}
	}
	return r.Next()
}

// call executes one call of azcosmos, on a document or a query by partition key, within
// the budget. The SDK does not retry after a response, not even after 429. The caller of
// a conditional write needs the result of each attempt, and chooses its own pauses. The
// charge is the charge of the response.
func (d *documents) call(ctx context.Context, kind requestKind, key string,
	do func(ctx context.Context, c *azcosmos.ContainerClient) (azcosmos.Response, error),
) (x *exchange, charge float64, err error) {
	x = &exchange{}
	if key != "" {
		x.key = ascii(feed.PartitionKey{key}.String())
	}
	client, err := d.open(ctx)
	if err != nil {
		return x, 0, err
	}
	container, err := client.NewContainer(d.database, d.container)
	if err != nil {
		return x, 0, err
	}
	t, err := d.account.options.Budget.admit(ctx, kind)
	if err != nil {
		return x, 0, err
	}
	ctx = policy.WithRetryOptions(context.WithValue(ctx, exchangeKey{}, x), policy.RetryOptions{MaxRetries: -1})
	res, err := do(ctx, container)
	answer := res.RawResponse
	var refused *azcore.ResponseError
	switch {
	case errors.As(err, &refused):
		answer = refused.RawResponse
	case err != nil && x.sent.Load() == 0 && ctx.Err() == nil:
		d.drop(client)
	}
	charge = chargeOf(answer)
	t.settle(charge)
	return x, charge, err
}

// chargeOf returns the charge of a request. It is zero if there is no response, or if the
// response does not contain it.
func chargeOf(answer *http.Response) float64 {
	if answer == nil {
		return 0
	}
	charge, err := strconv.ParseFloat(answer.Header.Get(wire.HeaderRequestCharge), 64)
	if err != nil || !(charge >= 0) {
		return 0
	}
	return charge
}

// status returns the status and sub-status of the response in an error. They are zero if
// there is none.
func status(err error) (code, sub int) {
	var refused *azcore.ResponseError
	if !errors.As(err, &refused) {
		return 0, 0
	}
	if refused.RawResponse != nil {
		if n, err := strconv.Atoi(refused.RawResponse.Header.Get(wire.HeaderSubStatus)); err == nil {
			sub = n
		}
	}
	return refused.StatusCode, sub
}

// headerOf returns the header of the response in an error. It is nil if there is none.
func headerOf(err error) http.Header {
	var refused *azcore.ResponseError
	if !errors.As(err, &refused) || refused.RawResponse == nil {
		return nil
	}
	return refused.RawResponse.Header
}

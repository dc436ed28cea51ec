package cosmos

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// authenticator sets the Authorization header of a request.
type authenticator interface {
	authorize(ctx context.Context, r *http.Request) error
}

// keyAuth signs requests with an account key.
type keyAuth struct{ key wire.Key }

func (a *keyAuth) authorize(_ context.Context, r *http.Request) error {
	path, err := wire.ParsePath(r.URL.EscapedPath())
	if err != nil {
		return fmt.Errorf("sign a request: %w", err)
	}
	date := wire.FormatTime(time.Now())
	r.Header.Set(wire.HeaderDate, date)
	r.Header.Set("Authorization", wire.Authorization(a.key.Sign(wire.Payload(r.Method, path.SignedType(), path.Links()[0], date, ""))))
	return nil
}

// These are the scopes for which tokens are requested, and the times at which tokens are
// renewed.
const (
	// commonScope is the scope of all accounts. It is for tenants that cannot resolve an
	// account's own scope (AADSTS500011).
	commonScope = "https://cosmos.azure.com/.default"
	// unresolvedResource is the error code of Entra ID for an unknown scope.
	unresolvedResource = "AADSTS500011"
	// tokenMargin is the time before its expiry at which a token is renewed, as in
	// azcore.
	tokenMargin = 5 * time.Minute
	// tokenPause is the time for which the old token is still used after a failed
	// renewal.
	tokenPause = 30 * time.Second
)

// scopes returns the scopes to request tokens for, in order of preference. If the cloud's
// configuration has a scope for azcosmos, that is the only one. Otherwise it is the
// account's own scope, which is correct in every cloud, and then the common one.
func scopes(endpoint *url.URL, o Options) []string {
	if service, ok := o.Cloud.Services[ServiceName]; ok && service.Audience != "" {
		return []string{strings.TrimSuffix(service.Audience, "/") + "/.default"}
	}
	return []string{"https://" + endpoint.Hostname() + "/.default", commonScope}
}

// tokenAuth sends tokens of Entra ID in the form that Cosmos DB requires. All requests
// share a token until five minutes before its expiry, or until the credential's time of
// refresh.
type tokenAuth struct {
	credential azcore.TokenCredential

	// turn is held by the one request that fetches a token. The other requests wait until
	// it is free or their contexts end.
	turn chan struct{}

	mu     sync.Mutex // guards the fields below
	scopes []string
	token  azcore.AccessToken
	// after is the time at which to fetch the next token.
	after time.Time
}

func newTokenAuth(credential azcore.TokenCredential, scopes []string) *tokenAuth {
	return &tokenAuth{credential: credential, scopes: scopes, turn: make(chan struct{}, 1)}
}

func (a *tokenAuth) authorize(ctx context.Context, r *http.Request) error {
	token, err := a.get(ctx)
	if err != nil {
		return fmt.Errorf("get a token of Entra ID: %w", err)
	}
	r.Header.Set(wire.HeaderDate, wire.FormatTime(time.Now()))
	r.Header.Set("Authorization", url.QueryEscape("type=aad&ver=1.0&sig="+token))
	return nil
}

// get returns a valid token, which it fetches if necessary.
func (a *tokenAuth) get(ctx context.Context) (string, error) {
	if token, fresh := a.current(); fresh {
		return token, nil
	}
	select {
	case a.turn <- struct{}{}:
		defer func() { <-a.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	old, fresh := a.current() // the request that held turn before may have fetched a token
	if fresh {
		return old, nil
	}
	next, scope, err := a.fetch(ctx)
	if err != nil && old == "" {
		return "", err
	}
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if err != nil { // the fetch has failed, but the old token is still valid
		a.after = now.Add(tokenPause)
		return old, nil
	}
	a.token, a.scopes, a.after = next, []string{scope}, next.ExpiresOn.Add(-tokenMargin)
	if !next.RefreshOn.IsZero() {
		a.after = next.RefreshOn
	}
	return next.Token, nil
}

// current returns the valid token, or an empty text if there is none. fresh reports
// whether no new token is needed yet.
func (a *tokenAuth) current() (token string, fresh bool) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !now.Before(a.token.ExpiresOn) {
		return "", false
	}
	return a.token.Token, now.Before(a.after)
}

// fetch requests a token for the scopes in turn. It returns the first token and its scope
// that Entra ID does not refuse as unknown.
func (a *tokenAuth) fetch(ctx context.Context) (t azcore.AccessToken, scope string, err error) {
	a.mu.Lock()
	all := a.scopes
	a.mu.Unlock()
	for _, scope = range all {
		t, err = a.credential.GetToken(ctx, policy.TokenRequestOptions{Scopes: []string{scope}})
		if err == nil || !strings.Contains(err.Error(), unresolvedResource) {
			break
		}
	}
	return t, scope, inLine(err)
}

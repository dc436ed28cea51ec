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
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// authenticator writes the Authorization header of a request.
type authenticator interface {
	authorize(ctx context.Context, r *http.Request) error
}

// keyAuth signs with an account key.
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

// The scopes of tokens, and when one is fetched anew.
const (
	// commonScope is that of all accounts, for tenants in which an account's own can't be resolved (AADSTS500011).
	commonScope = "https://cosmos.azure.com/.default"
	// unresolvedResource is the error of Entra ID that a scope is none it knows.
	unresolvedResource = "AADSTS500011"
	// tokenMargin is how long before its end a token is fetched anew, as azcore does it.
	tokenMargin = 5 * time.Minute
	// tokenPause is how long a token is used on after fetching the next has failed.
	tokenPause = 30 * time.Second
)

// scopes are those to ask a token for, the first that works: that of the cloud's configuration for azcosmos if there
// is one, else the account's own and then the common one. An account's own scope is right in every cloud.
func scopes(endpoint *url.URL, o Options) []string {
	if service, ok := o.Cloud.Services[azcosmos.ServiceName]; ok && service.Audience != "" {
		return []string{strings.TrimSuffix(service.Audience, "/") + "/.default"}
	}
	return []string{"https://" + endpoint.Hostname() + "/.default", commonScope}
}

// tokenAuth sends tokens of Entra ID, in the form of Cosmos DB. A token is shared by all requests until five minutes before
// its end, or until its credential wants it refreshed.
type tokenAuth struct {
	credential azcore.TokenCredential

	// turn is held by the one request that fetches a token; the others wait for it with their contexts.
	turn chan struct{}

	mu     sync.Mutex // guards the rest
	scopes []string
	token  azcore.AccessToken
	// after is when the token is to be fetched anew.
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

// get returns a token that is good for now.
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
	old, fresh := a.current() // by who had the turn before
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
	if err != nil { // the old one is still good
		a.after = now.Add(tokenPause)
		return old, nil
	}
	a.token, a.scopes, a.after = next, []string{scope}, next.ExpiresOn.Add(-tokenMargin)
	if !next.RefreshOn.IsZero() {
		a.after = next.RefreshOn
	}
	return next.Token, nil
}

// current is the token that can be used, empty if there is none, and whether there is no need of another.
func (a *tokenAuth) current() (token string, fresh bool) {
	now := time.Now()
	a.mu.Lock()
	defer a.mu.Unlock()
	if !now.Before(a.token.ExpiresOn) {
		return "", false
	}
	return a.token.Token, now.Before(a.after)
}

// fetch asks for a token of the first scope that Entra ID knows.
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

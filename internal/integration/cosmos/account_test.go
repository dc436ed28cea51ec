package cosmos_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/cloud"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/tracing"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cosmos"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestConnectionStringsAreReadAsThePortalShowsThem(t *testing.T) {
	for _, text := range []string{
		"AccountEndpoint=https://mine.documents.azure.com:443/;AccountKey=" + wire.EmulatorKey + ";",
		"AccountEndpoint=https://mine.documents.azure.com:443/;AccountKey=" + wire.EmulatorKey,
		" accountkey=" + wire.EmulatorKey + " ; accountendpoint=https://mine.documents.azure.com:443 ;Database=x;DisableServerCertificateValidation=False",
	} {
		a, err := cosmos.WithConnectionString(text, cosmos.Options{})
		if err != nil || a.Endpoint() != "https://mine.documents.azure.com:443/" {
			t.Errorf("%.40s: %v", text, err)
		}
	}
}

// An error about the user's endpoint, key or connection string must not contain the key.
func TestAccountErrorsNeverContainTheKey(t *testing.T) {
	const secret = "c2VjcmV0IHNlY3JldCBzZWNyZXQ=" //nolint:gosec // not a real secret
	for want, open := range map[string]func() (*cosmos.Account, error){
		"AccountEndpoint and AccountKey": func() (*cosmos.Account, error) {
			return cosmos.WithConnectionString("AccountKey="+secret, cosmos.Options{})
		},
		"a part without a value": func() (*cosmos.Account, error) {
			return cosmos.WithConnectionString("AccountEndpoint=https://a.b/;AccountKey"+secret[:10], cosmos.Options{})
		},
		"validation of certificates": func() (*cosmos.Account, error) {
			return cosmos.WithConnectionString("AccountEndpoint=https://a.b/;AccountKey="+secret+";DisableServerCertificateValidation=True", cosmos.Options{})
		},
		"base64": func() (*cosmos.Account, error) { return cosmos.WithKey("https://a.b/", secret+"!", cosmos.Options{}) },
		"has the form": func() (*cosmos.Account, error) {
			return cosmos.WithKey("mine.documents.azure.com", secret, cosmos.Options{})
		},
		"must contain only a scheme": func() (*cosmos.Account, error) { return cosmos.WithKey("https://a.b/db", secret, cosmos.Options{}) },
		"not a URL": func() (*cosmos.Account, error) {
			return cosmos.WithKey("https://u:"+secret+"@a b/%", secret, cosmos.Options{})
		},
		"a credential is required": func() (*cosmos.Account, error) { return cosmos.WithCredential("https://a.b/", nil, cosmos.Options{}) },
		"without TLS": func() (*cosmos.Account, error) {
			return cosmos.WithCredential("http://a.b/", &credential{}, cosmos.Options{})
		},
		"a budget of 0.5": func() (*cosmos.Account, error) {
			return cosmos.WithKey("https://a.b/", secret, cosmos.Options{Budget: cosmos.NewBudget(0.5)})
		},
		"scheme, a host an": func() (*cosmos.Account, error) {
			return cosmos.WithKey("https://u:"+secret+"@a.b/", secret, cosmos.Options{})
		},
	} {
		_, err := open()
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), secret[:10]) {
			t.Errorf("%v; want %q in it, and no key", err, want)
		}
	}
	a, err := cosmos.WithKey("https://a.b/", secret, cosmos.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	slog.New(slog.NewJSONHandler(&log, nil)).InfoContext(t.Context(), "x", "account", a)
	for _, text := range []string{fmt.Sprint(a), fmt.Sprintf("%+v", a), fmt.Sprintf("%#v", a), log.String()} {
		if !strings.Contains(text, "https://a.b/") || strings.Contains(text, secret[:10]) {
			t.Errorf("an account is printed as %s", text)
		}
	}
	// A printed copy of an Account must not show the key either. In the second value the
	// copy is in an unexported field, for which fmt calls no String method.
	raw, err := base64.StdEncoding.DecodeString(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []any{*a, struct{ account cosmos.Account }{*a}} {
		for _, text := range []string{fmt.Sprint(v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v)} {
			if strings.Contains(text, secret[:10]) || strings.Contains(text, fmt.Sprintf("%d %d %d %d", raw[0], raw[1], raw[2], raw[3])) {
				t.Errorf("a copy is printed as %s", text)
			}
		}
	}
}

// credential is a credential of Entra ID whose tokens are valid for an hour. It records
// the scopes that were requested.
type credential struct {
	mu     sync.Mutex // guards all
	asked  []string
	fail   func(scope string) error
	hold   time.Duration
	number int
}

func (c *credential) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	c.mu.Lock()
	c.asked = append(c.asked, strings.Join(o.Scopes, " "))
	fail, hold := c.fail, c.hold
	c.number++
	token := fmt.Sprintf("token-%d+/=", c.number)
	c.mu.Unlock()
	if hold > 0 {
		select {
		case <-time.After(hold):
		case <-ctx.Done():
			return azcore.AccessToken{}, ctx.Err()
		}
	}
	if fail != nil {
		if err := fail(o.Scopes[0]); err != nil {
			return azcore.AccessToken{}, err
		}
	}
	return azcore.AccessToken{Token: token, ExpiresOn: time.Now().Add(time.Hour)}, nil
}

func (c *credential) taken() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := strings.Join(c.asked, ", ")
	c.asked = nil
	return all
}

// signed is a transport that answers requests for an account and records the last
// Authorization header.
type signed struct {
	mu   sync.Mutex // guards last
	last string
}

func (s *signed) Do(r *http.Request) (*http.Response, error) {
	s.mu.Lock()
	s.last = r.Header.Get("Authorization")
	s.mu.Unlock()
	w := httptest.NewRecorder()
	switch r.URL.Path {
	case "/":
		_, _ = w.WriteString(`{"writableLocations":[{"name":"East","databaseAccountEndpoint":"https://a.b/"}],"readableLocations":[]}`)
	default:
		_, _ = w.WriteString(`{"_rid":"Gis8AYAAAAE=","partitionKey":{"paths":["/pk"],"kind":"Hash","version":2},"PartitionKeyRanges":[{"id":"0","minInclusive":"","maxExclusive":"FF"}]}`)
	}
	return w.Result(), nil
}

func (s *signed) token() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := wire.ParseAuthorization(s.last)
	if err != nil {
		return err.Error()
	}
	return t.Type + " " + t.Version + " " + t.Signature
}

func TestTokensHaveTheAccountsScopeAndTheServicesForm(t *testing.T) {
	sovereign := cosmos.Options{}
	sovereign.Cloud = cloud.Configuration{Services: map[cloud.ServiceName]cloud.ServiceConfiguration{cosmos.ServiceName: {Audience: "https://cosmos.azure.example/"}}}
	unknown := func(scope string) error {
		if scope != "https://cosmos.azure.com/.default" {
			return errors.New("AADSTS500011: The resource principal was not found in the tenant")
		}
		return nil
	}
	for _, c := range []struct {
		name, endpoint string
		options        cosmos.Options
		fail           func(string) error
		want           string
	}{
		{"the account's", "https://mine.documents.azure.cn:443/", cosmos.Options{}, nil, "https://mine.documents.azure.cn/.default"},
		{"the cloud's", "https://mine.documents.azure.com/", sovereign, nil, "https://cosmos.azure.example/.default"},
		{
			"the common one where the account's is unknown", "https://mine.documents.azure.com/",
			cosmos.Options{},
			unknown,
			"https://mine.documents.azure.com/.default, https://cosmos.azure.com/.default",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			cred, transport := &credential{fail: c.fail}, &signed{}
			c.options.Transport = transport
			a, err := cosmos.WithCredential(c.endpoint, cred, c.options)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := a.Source("shop", "orders", cosmos.SourceOptions{}).Partitions(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := cred.taken(); got != c.want {
				t.Errorf("tokens were asked for the scopes %q; want %q", got, c.want)
			}
			if got := transport.token(); got != fmt.Sprintf("aad 1.0 token-%d+/=", strings.Count(c.want, ",")+1) {
				t.Errorf("the request is authorized by %q", got)
			}
		})
	}
}

func TestATokenIsSharedUntilItNearsItsExpiry(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cred, transport := &credential{hold: time.Second}, &signed{}
		var o cosmos.Options
		o.Transport, o.Retry.MaxRetries = transport, -1
		a, err := cosmos.WithCredential("https://a.b/", cred, o)
		if err != nil {
			t.Fatal(err)
		}
		source := a.Source("shop", "orders", cosmos.SourceOptions{})
		ask := func() error { _, err := source.Partitions(t.Context()); return err }
		var all sync.WaitGroup
		for range 20 {
			all.Go(func() {
				if err := ask(); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := cred.taken(); strings.Contains(got, ",") {
			t.Errorf("20 requests asked for the tokens %q; want one", got)
		}
		time.Sleep(54 * time.Minute)
		if err := ask(); err != nil || cred.taken() != "" {
			t.Errorf("six minutes before its end a new token was requested (%v)", err)
		}
		time.Sleep(2 * time.Minute)
		if err := ask(); err != nil || cred.taken() == "" || transport.token() != "aad 1.0 token-2+/=" {
			t.Errorf("four minutes before its end no new token was requested (%v), the request has %q", err, transport.token())
		}
		// While Entra ID is down, the current token must be used until it expires.
		cred.mu.Lock()
		cred.fail = func(string) error { return errors.New("Entra ID is down") }
		cred.mu.Unlock()
		time.Sleep(56 * time.Minute)
		if err := ask(); err != nil || transport.token() != "aad 1.0 token-2+/=" {
			t.Errorf("a token that is still good is not used: %v", err)
		}
		time.Sleep(5 * time.Minute)
		if err := ask(); err == nil || !strings.Contains(err.Error(), "Entra ID is down") {
			t.Errorf("without a token: %v; want the credential's error", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := source.Partitions(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a request whose context ends before its token comes: %v", err)
		}
	})
}

// If the user's transport has a proxy, requests must go to the proxy and contain their
// target.
func TestRequestsPassAProxy(t *testing.T) {
	db := changefeedtest.NewServer(t)
	changefeedtest.NewContainer(t, db.DB, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/pk"}})
	var mu sync.Mutex
	var passed []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		passed = append(passed, r.URL.Host)
		mu.Unlock()
		r.RequestURI = ""
		answer, err := db.Client().Do(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer func() { _ = answer.Body.Close() }()
		for name, values := range answer.Header {
			w.Header()[name] = values
		}
		w.WriteHeader(answer.StatusCode)
		_, _ = bufio.NewReader(answer.Body).WriteTo(w)
	}))
	defer proxy.Close()
	via, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{Proxy: http.ProxyURL(via)}
	defer transport.CloseIdleConnections()
	var o cosmos.Options
	o.Transport = &http.Client{Transport: transport}
	source := account(t, db, o).Source("shop", "orders", cosmos.SourceOptions{})
	if _, err := source.Read(t.Context(), feed.Request{}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(passed) == 0 || passed[0] != strings.Trim(strings.TrimPrefix(db.Endpoint, "http:"), "/") {
		t.Errorf("the proxy passed on requests to %q", passed)
	}
}

// The policies in Options must see every request, and the application's id must be in the
// user agent.
func TestTheUsersPoliciesAndNameAreInThePipeline(t *testing.T) {
	seen := &recorder{}
	db := changefeedtest.NewServer(t)
	changefeedtest.NewContainer(t, db.DB, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/pk"}})
	seen.next = db.Client()
	var o cosmos.Options
	o.Transport, o.Telemetry.ApplicationID = seen, "my-app"
	o.PerCallPolicies = []policy.Policy{policyFunc(func(r *policy.Request) (*http.Response, error) {
		r.Raw().Header.Set("X-Mine", "call")
		return r.Next()
	})}
	if _, err := account(t, db, o).Source("shop", "orders", cosmos.SourceOptions{}).Read(t.Context(), feed.Request{}); err != nil {
		t.Fatal(err)
	}
	for _, r := range seen.taken() {
		agent := r.Header.Get("User-Agent")
		if !strings.HasPrefix(agent, "my-app ") || !strings.Contains(agent, "changefeed/v") || r.Header.Get("X-Mine") != "call" {
			t.Errorf("%s has the user agent %q, and X-Mine: %q", r.URL.Path, agent, r.Header.Get("X-Mine"))
		}
	}
}

// With a tracing provider in Options, the reads of the container, the partitions and the
// feed must be spans, and so must their HTTP requests.
func TestReadsAreTraced(t *testing.T) {
	var mu sync.Mutex
	var spans []string
	provider := tracing.NewProvider(func(string, string) tracing.Tracer {
		return tracing.NewTracer(func(ctx context.Context, name string, _ *tracing.SpanOptions) (context.Context, tracing.Span) {
			mu.Lock()
			spans = append(spans, name)
			mu.Unlock()
			return ctx, tracing.Span{}
		}, nil)
	}, nil)
	s := changefeedtest.NewServer(t)
	changefeedtest.NewContainer(t, s.DB, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/pk"}})
	var o cosmos.Options
	o.TracingProvider = provider
	if _, err := account(t, s, o).Source("shop", "orders", cosmos.SourceOptions{}).Read(t.Context(), feed.Request{}); err != nil {
		t.Fatal(err)
	}
	mu.Lock()
	defer mu.Unlock()
	all := strings.Join(spans, " ")
	for _, want := range []string{"Source.ReadContainer", "Source.ReadPartitions", "Source.ReadFeed", "HTTP GET"} {
		if !strings.Contains(all, want) {
			t.Errorf("the spans are %s; want %s among them", all, want)
		}
	}
}

type policyFunc func(*policy.Request) (*http.Response, error)

func (f policyFunc) Do(r *policy.Request) (*http.Response, error) { return f(r) }

package connect

import (
	"context"
	"errors"
	"net/http"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
)

// names are the names of an account's flags and variables, as error texts use them. The
// zero value has the names of the flags without a prefix.
type names struct {
	// prefix is the prefix of the flags: "", or for instance "lease-".
	prefix string
	// url is the flag whose URL the account has, if that is not --{prefix}endpoint.
	url string
	// key is everything that may hold the key, if that is another account's.
	key string
	// flagless reports that the command has no flags for the account, but only variables.
	flagless bool
}

func (n names) flag(name string) string { return "--" + n.prefix + name }

// endpointName returns the flag or variable that holds the endpoint.
func (n names) endpointName() string {
	switch {
	case n.url != "":
		return n.url
	case n.flagless:
		return variables(n.prefix) + "ENDPOINT"
	}
	return n.flag("endpoint")
}

// endpoints returns everything that may hold the endpoint.
func (n names) endpoints() string {
	if name := n.endpointName(); n.flagless || n.url != "" {
		return name
	}
	return n.flag("endpoint") + " or " + variables(n.prefix) + "ENDPOINT"
}

// keys returns everything that may hold the key.
func (n names) keys() string {
	variable := variables(n.prefix) + "KEY"
	switch {
	case n.key != "":
		return n.key
	case n.flagless:
		return variable + " or " + variable + "_FILE"
	}
	return n.flag("key-file") + ", " + n.flag("key") + " or " + variable
}

// certificateFile returns how to name the file of a certificate to trust.
func (n names) certificateFile() string {
	variable := variables(n.prefix) + "CERTIFICATE"
	if n.flagless {
		return variable + "=FILE"
	}
	return n.flag("certificate") + " FILE (" + variable + ")"
}

// namesKey is the key of an account's names in the context of its requests.
type namesKey struct{}

// namedError is an error of a request that was not answered, with the names of the
// request's account.
type namedError struct {
	error
	names names
}

// Unwrap returns the error underneath.
func (e *namedError) Unwrap() error { return e.error }

// namesOf returns the names of the account that err comes from. An answer has them in the
// context of its request, because SDKs make their errors from answers by themselves.
func namesOf(err error) names {
	if named, ok := errors.AsType[*namedError](err); ok {
		return named.names
	}
	if r := requestOf(err); r != nil {
		n, _ := r.Context().Value(namesKey{}).(names)
		return n
	}
	return names{}
}

// sender sends the requests of SDKs. It marks errors that a retry cannot fix, so that
// SDKs return them at once, and gives [Advice] the names of the account.
type sender struct {
	client *http.Client
	names  names
}

// Do implements policy.Transporter.
func (s sender) Do(r *http.Request) (*http.Response, error) {
	answer, err := s.client.Do(r.WithContext(context.WithValue(r.Context(), namesKey{}, s.names)))
	if err != nil && hopeless(err, r.URL.Hostname()) {
		err = &hopelessError{err}
	}
	if err != nil {
		return nil, &namedError{err, s.names}
	}
	return answer, nil
}

// signIn is a credential of Microsoft Entra ID. Its errors have the names of the account,
// like those of a [sender].
type signIn struct {
	azcore.TokenCredential
	names names
}

// GetToken implements azcore.TokenCredential.
func (s signIn) GetToken(ctx context.Context, o policy.TokenRequestOptions) (azcore.AccessToken, error) {
	token, err := s.TokenCredential.GetToken(ctx, o)
	if err != nil {
		err = &namedError{err, s.names}
	}
	return token, err
}

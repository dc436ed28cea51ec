package connect

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"

	"github.com/changefeed-go/changefeed/feed"
)

// Plain is err with the service's own words alone, where it is an answer of it: azcore
// prints the whole answer, over many lines.
func Plain(err error) error {
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) {
		return err
	}
	return &answeredError{answer}
}

// Status is the HTTP status of an answer; 0: err is none.
func Status(err error) int {
	if answer, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return answer.StatusCode
	}
	return 0
}

// answeredError prints status and message of an answer.
type answeredError struct{ answer *azcore.ResponseError }

// Unwrap returns azcore's error.
func (e *answeredError) Unwrap() error { return e.answer }

func (e *answeredError) Error() string { return brief(e.answer) }

// brief is what an answer says, in one line.
func brief(answer *azcore.ResponseError) string {
	text := answer.Error()
	if speaksTLS(text) {
		return "the account speaks TLS, and the endpoint is http://"
	}
	if at := strings.Index(text, "{"); at >= 0 {
		var body struct{ Message string }
		if json.NewDecoder(strings.NewReader(text[at:])).Decode(&body) == nil && body.Message != "" {
			text, _, _ = strings.Cut(body.Message, "\n")
			return fmt.Sprintf("the account answers %d: %s", answer.StatusCode, strings.TrimRight(text, "\r"))
		}
	}
	return fmt.Sprintf("the account answers %d (%s)", answer.StatusCode, answer.ErrorCode)
}

// speaksTLS reports whether an answer is that of a TLS server to a request without TLS: of Go's, or
// of nginx, which stands before the service.
func speaksTLS(text string) bool {
	return strings.Contains(text, "HTTP request to an HTTPS server") || strings.Contains(text, "HTTP request was sent to HTTPS port")
}

// Text is err's text, with every answer in it cut to what it says.
func Text(err error) string { return shortened(err.Error(), err) }

// shortened is text with the answers of err, and of what it wraps, cut to what they say.
func shortened(text string, err error) string {
	if answer, ok := err.(*azcore.ResponseError); ok { //nolint:errorlint // what it wraps comes next
		return strings.ReplaceAll(text, answer.Error(), brief(answer))
	}
	switch e := err.(type) { //nolint:errorlint // each error of the tree has its turn
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return shortened(text, inner)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			text = shortened(text, inner)
		}
	}
	return text
}

// secret is what an account key looks like (64 bytes in base64), and what a connection string has for one.
var secret = regexp.MustCompile(`[A-Za-z0-9+/]{86}==|(?i:AccountKey=)[^;\s"]+`)

// Secretless is text without account keys: one that was given in the wrong place, as the name of a file or
// with a flag's name forgotten, comes back in the words of whoever refuses it.
func Secretless(text string) string { return secret.ReplaceAllString(text, "(an account key)") }

// Explain is err, which a request for a container has come to, in plain words; where the container isn't there, with
// those that are.
func (o *Opened) Explain(ctx context.Context, database, container string, err error) error {
	if Status(err) != http.StatusNotFound {
		return fmt.Errorf("look at the container %s/%s of %s: %w", database, container, o.Settings, Plain(err))
	}
	there, listErr := o.containers(ctx)
	name := database + "/" + container
	switch {
	case listErr != nil: // a key that may read one container needn't be allowed to list them all
		return &missingError{fmt.Sprintf("there is no container %s in %s", name, o.Settings)}
	case len(there) == 0:
		return &missingError{fmt.Sprintf("there is no container %s: %s has none", name, o.Settings)}
	}
	return &missingError{fmt.Sprintf("there is no container %s; there are %s", name, strings.Join(there, ", "))}
}

// missingError reports that a container does not exist.
type missingError struct{ text string }

func (e *missingError) Error() string { return e.text }

// Missing reports whether err is an error of [Opened.Explain] for a container that does not exist.
func Missing(err error) bool {
	var missing *missingError
	return errors.As(err, &missing)
}

// containers are the names of all containers: database/container.
func (o *Opened) containers(ctx context.Context) ([]string, error) {
	var names []string
	databases := o.documents.NewQueryDatabasesPager("SELECT * FROM c", nil)
	for databases.More() {
		page, err := databases.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, d := range page.Databases {
			client, err := o.documents.NewDatabase(d.ID)
			if err != nil {
				return nil, err
			}
			if names, err = appendContainers(ctx, names, client); err != nil {
				return nil, err
			}
		}
	}
	return names, nil
}

func appendContainers(ctx context.Context, names []string, d *azcosmos.DatabaseClient) ([]string, error) {
	pager := d.NewQueryContainersPager("SELECT * FROM c", nil)
	for pager.More() {
		page, err := pager.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		for _, c := range page.Containers {
			names = append(names, d.ID()+"/"+c.ID)
		}
	}
	return names, nil
}

// Advice says what to do about an error of a connection, to be put behind its text; empty: nothing is known.
func Advice(err error) string {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		dns       *net.DNSError
		way       *net.OpError
		answer    *azcore.ResponseError
	)
	switch {
	case errors.Is(err, feed.ErrMisconfigured):
		return flagOf(err)
	case errors.As(err, &way) && way.Op == "proxyconnect":
		return "; that is the proxy of HTTPS_PROXY or HTTP_PROXY: see to it, or name the account's host in NO_PROXY"
	case errors.As(err, &authority):
		return "; the certificate isn't trusted: give --certificate FILE (COSMOS_CERTIFICATE), whose path `changefeed serve` prints when it starts"
	case errors.As(err, &name):
		return "; the certificate is for another name: use a name that it has in --endpoint"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "; the server doesn't speak TLS: use http:// in --endpoint"
	case errors.As(err, &answer) && speaksTLS(answer.Error()):
		return "; use https:// in --endpoint"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "; nobody listens there: start `changefeed serve`, or see to --endpoint"
	case errors.As(err, &dns) && dns.IsNotFound:
		return "; there is no such host: see to the spelling of --endpoint"
	case strings.Contains(err.Error(), "DefaultAzureCredential: "):
		return "\nNo key was given, so Microsoft Entra ID was tried. Sign in (`az login`), or give --key-file, --key, or COSMOS_KEY."
	case Status(err) == http.StatusUnauthorized:
		return "; the key is refused: it is another account's, or was renewed (where none is given, it is that of the local emulators on this machine): see to --key-file, --key, or COSMOS_KEY"
	}
	return ""
}

// flagOf returns which flag an error is about whose text names the remedy already; empty: none.
func flagOf(err error) string {
	var authority x509.UnknownAuthorityError
	switch {
	case errors.As(err, &authority):
		return "; --certificate FILE (COSMOS_CERTIFICATE) trusts one, and `changefeed serve` prints its path when it starts"
	case Status(err) == http.StatusUnauthorized:
		return "; see --key-file, --key and COSMOS_KEY (where none is given, the key is that of the local emulators on this machine)"
	case Status(err) == http.StatusForbidden:
		return ""
	}
	return "; see --endpoint and COSMOS_ENDPOINT"
}

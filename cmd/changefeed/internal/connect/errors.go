package connect

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"regexp"
	"strings"
	"syscall"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/admin"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/view"
	"github.com/changefeed-go/changefeed/feed"
	"github.com/changefeed-go/changefeed/internal/rest"
	"github.com/changefeed-go/changefeed/internal/wire"
)

// Plain returns err with only the service's message if err is an answer of the service.
// The text of azcore's own error is the whole answer, over many lines.
func Plain(err error) error {
	var answer *azcore.ResponseError
	if !errors.As(err, &answer) {
		return err
	}
	return &answeredError{answer}
}

// Status returns the HTTP status of the answer in err. It returns 0 if err is not an
// answer.
func Status(err error) int {
	if answer, ok := errors.AsType[*azcore.ResponseError](err); ok {
		return answer.StatusCode
	}
	if answer, ok := errors.AsType[*admin.StatusError](err); ok {
		return answer.Status
	}
	return 0
}

// requestOf returns the request whose answer err is. It returns nil if err is no answer.
func requestOf(err error) *http.Request {
	if answer, ok := errors.AsType[*azcore.ResponseError](err); ok && answer.RawResponse != nil {
		return answer.RawResponse.Request
	}
	if answer, ok := errors.AsType[*admin.StatusError](err); ok {
		return answer.Request
	}
	return nil
}

// wrongKey reports whether an account rejects the key that a request was signed with. The
// answers to tokens of Microsoft Entra ID have other texts, which explain more.
func wrongKey(err error) bool {
	return Status(err) == http.StatusUnauthorized && strings.Contains(err.Error(), "wrong key is being used")
}

// answeredError is an error of azcore for an answer. Its text is only the answer's status
// and message.
type answeredError struct{ answer *azcore.ResponseError }

// Unwrap returns azcore's error.
func (e *answeredError) Unwrap() error { return e.answer }

func (e *answeredError) Error() string { return brief(e.answer) }

// brief returns an answer in one line.
func brief(answer *azcore.ResponseError) string {
	if requiresTLS(answer) {
		return "the account requires TLS, but the endpoint is http://"
	}
	return rest.Line(answer)
}

// requiresTLS reports whether a TLS server has answered a request without TLS.
func requiresTLS(answer *azcore.ResponseError) bool {
	return wire.RequiresTLS(answer.StatusCode, answer.Error())
}

// Text returns the text of err in one line, with names from the account escaped. Each answer of
// the service in it is shortened to its message, ranges have their short names, and the remedies
// that [Advice] gives in the words of the command are left out.
func Text(err error) string {
	if wrongKey(err) { // every request has this text, instead of the payload that the service names
		account := "the account"
		if r := requestOf(err); r != nil {
			account = "account " + r.URL.Host
		}
		return view.OneLine(account + " rejects the key: it belongs to another account, or was replaced")
	}
	text := shortened(err.Error(), err)
	return view.OneLine(view.NamesIn(text).In(text))
}

// shortened returns text, in which the answers in err and in the errors that err wraps
// are shortened to their messages.
func shortened(text string, err error) string {
	if mismatch, ok := err.(interface{ Remedy() string }); ok {
		text = strings.ReplaceAll(text, "; "+mismatch.Remedy(), "") // [Advice] has the command's own
	}
	if answer, ok := err.(*azcore.ResponseError); ok { //nolint:errorlint // the wrapped errors come next
		return strings.ReplaceAll(text, answer.Error(), brief(answer))
	}
	if own := err.Error(); strings.HasPrefix(own, entra) {
		text = strings.ReplaceAll(text, own, strings.Join(strings.Fields(own), " ")) // it has a line for each credential
	}
	switch e := err.(type) { //nolint:errorlint // the function visits every error of the tree
	case interface{ Unwrap() error }:
		if inner := e.Unwrap(); inner != nil {
			return shortened(text, inner)
		}
	case interface{ Unwrap() []error }:
		all := e.Unwrap()
		var texts []string
		for _, inner := range all {
			texts = append(texts, inner.Error())
		}
		text = strings.ReplaceAll(text, strings.Join(texts, "\n"), strings.Join(texts, "; ")) // [errors.Join] has a line for each
		for _, inner := range all {
			text = shortened(text, inner)
		}
	}
	return text
}

// entra begins the text of a failed sign-in by Microsoft Entra ID.
const entra = "DefaultAzureCredential: "

// secret matches an account key (64 bytes in base64), and the AccountKey in a connection
// string.
var secret = regexp.MustCompile(`[A-Za-z0-9+/]{86}==|(?i:AccountKey=)[^;\s"]+`)

// Secretless returns text without account keys. An error text may contain a key that the
// user gave in place of a file name, or without its flag.
func Secretless(text string) string { return secret.ReplaceAllString(text, "(an account key)") }

// Explain returns err, the error of a request to a container, with a text for the user.
// If the container does not exist, the text lists the containers that do.
func (o *Opened) Explain(ctx context.Context, database, container string, err error) error {
	if Status(err) != http.StatusNotFound {
		return fmt.Errorf("read the container %s/%s of %s: %w", database, container, o.Settings, Plain(err))
	}
	there, listErr := o.containers(ctx)
	name := database + "/" + container
	switch {
	case listErr != nil: // a key that is for one container only may not list all containers
		return &missingError{fmt.Sprintf("container %s does not exist in %s", name, o.Settings)}
	case len(there) == 0:
		return &missingError{fmt.Sprintf("container %s does not exist: %s has no containers", name, o.Settings)}
	}
	return &missingError{fmt.Sprintf("container %s does not exist; the existing ones are %s", name, strings.Join(there, ", "))}
}

// missingError reports that a container does not exist.
type missingError struct{ text string }

func (e *missingError) Error() string { return e.text }

// Missing reports whether err is an error of [Opened.Explain] for a container that does not exist.
func Missing(err error) bool {
	var missing *missingError
	return errors.As(err, &missing)
}

// containers returns the names of all containers, as database/container.
func (o *Opened) containers(ctx context.Context) (names []string, err error) {
	databases, err := o.Documents().Databases(ctx)
	for _, database := range databases {
		containers, err := o.Documents().Database(database).Containers(ctx)
		if err != nil {
			return nil, err
		}
		for _, c := range containers {
			names = append(names, database+"/"+c)
		}
	}
	return names, err
}

// Advice returns the remedy for an error of a connection, to be appended to its text. It
// names the flags and variables of the account that the error comes from. It returns ""
// if there is no remedy.
func Advice(err error) string {
	var (
		authority x509.UnknownAuthorityError
		name      x509.HostnameError
		dns       *net.DNSError
		way       *net.OpError
		answer    *azcore.ResponseError
		record    tls.RecordHeaderError
	)
	n := namesOf(err)
	switch {
	case Status(err) == http.StatusUnauthorized:
		return "; check " + n.keys() + " (on this machine the default is the local emulators' key)"
	case errors.As(err, &way) && way.Op == "proxyconnect":
		return "; the proxy of HTTPS_PROXY or HTTP_PROXY failed: check it, or add the account's host to NO_PROXY"
	case errors.As(err, &authority):
		return "; use " + n.certificateFile() + "; `changefeed serve` prints the file's path when it starts"
	case errors.As(err, &name):
		return "; the certificate is for another host name: use one of its names in " + n.endpointName()
	case errors.Is(err, http.ErrSchemeMismatch), errors.As(err, &record):
		return "; the server does not use TLS: use http:// in " + n.endpointName()
	case errors.As(err, &answer) && requiresTLS(answer):
		return "; use https:// in " + n.endpointName()
	case errors.Is(err, feed.ErrMisconfigured):
		return flagOf(err, n)
	case errors.Is(err, syscall.ECONNREFUSED):
		return "; no server listens there: start `changefeed serve`, or check " + n.endpointName()
	case errors.As(err, &dns) && dns.IsNotFound:
		return "; the host does not exist: check the spelling of " + n.endpointName()
	case strings.Contains(err.Error(), entra):
		return "\nNo key was given, so Microsoft Entra ID was tried. Sign in (`az login`), or use " + n.keys() + "."
	}
	return ""
}

// flagOf returns the flags to check for an error whose text already contains the remedy.
// It returns "" if there are no such flags.
func flagOf(err error, n names) string {
	if Status(err) == http.StatusForbidden {
		return ""
	}
	return "; check " + n.endpoints()
}

package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"

	"github.com/changefeed-go/changefeed/feed"
)

// documentClient sends the requests for the documents of a container of leases or letters. It
// counts their charges, and explains refusals.
type documentClient struct {
	container *address
	// presence distinguishes a missing document from a missing container.
	presence *presence

	mu      sync.Mutex // guards charged
	charged float64
}

// newDocumentClient returns a client for the documents of a kind that noun names: "lease" or
// "letter".
func newDocumentClient(container *address, noun string) documentClient {
	return documentClient{container: container, presence: newPresence(container, noun)}
}

// Charged returns the total charge of the requests; see [lease.Store] and
// [letters.Store].
func (d *documentClient) Charged() float64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.charged
}

// send sends a call and adds its charge. Everything goes to the account's write region, also
// reads: a conditional write needs a read from the same region, and all hosts must use the
// same one. azcore retries only reads of letters, because the caller of a conditional write needs
// the outcome of each attempt, and owners of leases choose their own pauses.
//
// A refusal is not an error here. An error is a *feed.ThrottledError only if nothing was sent.
func (d *documentClient) send(ctx context.Context, q *call) (*answer, error) {
	q.writes, q.once, q.charge = true, q.kind != kindLetterRead && q.kind != kindLetterList, 0
	q.sent.Store(0)
	a, err := d.container.account.client.do(ctx, q)
	d.mu.Lock()
	d.charged += q.charge
	d.mu.Unlock()
	if _, throttled := errors.AsType[*feed.ThrottledError](err); throttled && q.sent.Load() > 0 {
		err = inDoubt(err) // the budget has refused a later attempt
	}
	return a, err
}

// failure returns the error of a refused call. It is in doubt if the call is a throttled
// write whose request was sent more than once.
func (d *documentClient) failure(q *call, action string, a *answer) error {
	if a.isMissing() { // without ErrNotFound, which would mean that the document alone is missing
		return fmt.Errorf("%s: there is no %s: %w", q.op, d.container.what(), inLine(a.failure))
	}
	err := d.container.refusal(action).failure(q.op, a)
	if a.status == http.StatusTooManyRequests && (q.kind == kindLeaseWrite || q.kind == kindLetterWrite) && q.again() {
		return inDoubt(err)
	}
	return err
}

// missed returns the error of a request for one document, as failure does, or nil if it was
// not refused. It returns feed.ErrNotFound only if the document does not exist and its
// container does. After the deletion of the container, the owners of its leases would
// otherwise treat each lease as deleted and put it back.
func (d *documentClient) missed(ctx context.Context, q *call, action string, a *answer) error {
	switch {
	case a.failure == nil:
		return nil
	case !a.isAbsent():
		return d.failure(q, action, a)
	}
	there, err := d.presence.confirm(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("%s: not found, and %s cannot be read to check whether the %s or the container is missing: %w", q.op, d.container.what(), d.presence.noun, inDoubt(err))
	case !there:
		return d.failure(q, action, a)
	}
	return fmt.Errorf("%s: %w", q.op, feed.ErrNotFound)
}

// inDoubt returns err without what it wraps. A ThrottledError would mean that nothing was
// written, but an earlier attempt at the write may have been carried out.
func inDoubt(err error) error { return errors.New(err.Error()) }

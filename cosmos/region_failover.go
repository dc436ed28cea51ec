package cosmos

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// failover is the policy that chooses the region of an attempt. A read can be retried in
// another region. A write has only the region of writes, unless the account has several.
// After a failure that may not occur in another region, failover tries the next region at
// once. After the last region it leaves the response to azcore's retries, which pause and
// start over.
//
//	403/3, 403/1008    the region no longer has the account: tried last for a while,
//	                   next; the caller refreshes the topology
//	404/1002           the region lacks the session's writes: next; the region of
//	                   writes is last
//	408, 500, 502-504  next
//	no connection      tried last for a while, next; a call that may be a program's
//	                   first is not retried after the last region
//	no response        tried last for a while, next; if the caller's own time
//	                   has ended, its next read starts with another region
//	connection lost    next
//
// failover reads the body, so that a truncated response counts as a lost connection.
type failover struct{ regions *regions }

// These are the sub-statuses of 403 by which a region refuses a request that another
// region may accept. With subWriteForbidden it no longer accepts writes. With
// subAccountNotFound it no longer has the account.
const (
	subWriteForbidden  = 3
	subAccountNotFound = 1008
)

func (f failover) Do(r *policy.Request) (*http.Response, error) {
	q := &call{}
	r.OperationValue(&q)
	hosts := f.regions.hosts(q)
	for i, host := range hosts {
		began := time.Now()
		response, err := attempt(r, host)
		if ctxErr := r.Raw().Context().Err(); ctxErr != nil {
			// The deadline of a processor's read is shorter than the limit of an attempt.
			// Record a region that did not respond until then, or every later read would
			// try it first.
			if err != nil && errors.Is(ctxErr, context.DeadlineExceeded) && time.Since(began) >= silence {
				f.regions.fail(host)
			}
			return response, err
		}
		elsewhere, down := diagnose(response, err)
		if down {
			f.regions.fail(host)
		}
		q.lacking = q.lacking || lacks(response, err) && f.regions.takesWrites(host)
		q.failed = err
		if err == nil && elsewhere {
			q.failed = fmt.Errorf("%s responded with %s", host, response.Status)
		}
		if elsewhere && i < len(hosts)-1 {
			continue
		}
		if down && err != nil && host != f.regions.endpoint.Host {
			err = fmt.Errorf("%w (the account names the address %s; if this client cannot reach it, Options.LimitToEndpoint keeps all requests at %s)",
				err, host, f.regions.endpoint.Host)
		}
		if down && err != nil && q.early {
			err = final{err}
		}
		return response, err
	}
	return nil, errors.New("the account has no hosts") // not possible, because regions.hosts returns at least one
}

// attempt sends the request to a host and reads the whole response. It ends after the
// time limit of one attempt.
func attempt(r *policy.Request, host string) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(r.Raw().Context(), requestTimeout)
	defer cancel()
	one := r.Clone(ctx)
	one.Raw().URL.Host, one.Raw().Host = host, host
	response, err := one.Next()
	if err == nil {
		err = readBody(response)
	}
	switch {
	case err == nil:
		return response, nil
	case isMismatch(err):
		err = explainMismatch(host, err)
	case r.Raw().Context().Err() == nil && ctx.Err() != nil:
		err = &silentError{host: host, err: err}
	}
	return nil, err
}

// silence is the time after which a missing response counts as a failure of the region,
// even if the caller's deadline was short. A healthy region responds in a fraction of it.
const silence = time.Second

// silentError reports that a region did not respond within the limit of a request.
type silentError struct {
	host string
	err  error
}

func (e *silentError) Error() string {
	return fmt.Sprintf("no response from %s within %s: %v", e.host, requestTimeout, e.err)
}

// Unwrap returns the underlying error.
func (e *silentError) Unwrap() error { return e.err }

// diagnose reports whether another region may succeed after the response r or the error err.
// down reports whether this region must be tried last for a while.
func diagnose(r *http.Response, err error) (elsewhere, down bool) {
	if err != nil {
		var stop interface{ NonRetriable() }
		if errors.As(err, &stop) {
			return false, false
		}
		return true, unreachable(err)
	}
	sub, _ := strconv.Atoi(r.Header.Get(wire.HeaderSubStatus))
	switch r.StatusCode {
	case http.StatusForbidden:
		moved := sub == subWriteForbidden || sub == subAccountNotFound
		return moved, moved
	case http.StatusNotFound:
		return lacks(r, nil), false
	case http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true, false
	}
	return false, false
}

// lacks reports whether a region responded that it lacks the session's writes or the
// position of a read.
func lacks(r *http.Response, err error) bool {
	return err == nil && r.StatusCode == http.StatusNotFound && r.Header.Get(wire.HeaderSubStatus) == strconv.Itoa(wire.SubReadSessionNotAvailable)
}

// unreachable reports whether err shows that no connection was made, or that no response
// arrived. That shows a failed region more clearly than a connection that was lost.
func unreachable(err error) bool {
	var (
		dns    *net.DNSError
		silent *silentError
	)
	if errors.As(err, &dns) || errors.As(err, &silent) {
		return true
	}
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}

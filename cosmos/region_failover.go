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

// failover is the policy that chooses the region of an attempt. A read can be tried again elsewhere; a write has the one
// region that is written to. After an answer that another region may not give, it goes on with the next region at once; after the last
// one it leaves the answer to azcore's retries, which pause and come back.
//
//	403/3, 403/1008    the region no longer has the account: read last for a while, next; the caller asks for the account
//	404/1002           the region hasn't the session's writes yet: next, the region of writes last
//	408, 500, 502-504  next
//	no connection      read last for a while, next
//	no answer in time  read last for a while, next; if the caller's own time is up, its next read begins with another region
//	connection lost    next
//
// It reads the body, so that an answer that is cut off counts as a lost connection.
type failover struct{ regions *regions }

// The sub-statuses of 403 by which a region says that it isn't the account's.
const (
	subWriteForbidden  = 3
	subAccountNotFound = 1008
)

func (f failover) Do(r *policy.Request) (*http.Response, error) {
	var q *call
	r.OperationValue(&q)
	hosts := f.regions.hosts(q != nil && q.account)
	if q != nil && q.body != nil {
		hosts = f.regions.writeHosts()
	}
	for i, host := range hosts {
		began := time.Now()
		response, err := attempt(r, host)
		if ctxErr := r.Raw().Context().Err(); ctxErr != nil {
			// A processor's reads have less time than an attempt may take. Would a region that says nothing not be
			// noted here, every read would end in it.
			if err != nil && errors.Is(ctxErr, context.DeadlineExceeded) && time.Since(began) >= silence {
				f.regions.fail(host)
			}
			return response, err
		}
		elsewhere, down := judge(response, err)
		if down {
			f.regions.fail(host)
		}
		if q != nil {
			q.failed = err
			if err == nil && elsewhere {
				q.failed = fmt.Errorf("%s answers %s", host, response.Status)
			}
		}
		if elsewhere && i < len(hosts)-1 {
			continue
		}
		if down && err != nil && host != f.regions.endpoint.Host {
			err = fmt.Errorf("%w (the account names the address %s; if this client can't reach it, Options.LimitToEndpoint keeps all requests at %s)",
				err, host, f.regions.endpoint.Host)
		}
		return response, err
	}
	return nil, errors.New("the account has no hosts") // hosts returns at least one
}

// attempt sends the request to a host, for as long as a request may take, and reads the answer.
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

// silence is how long a region says nothing before a deadline of the caller's is its fault: a healthy one answers
// a page within a fraction of it.
const silence = time.Second

// silentError tells that a region gave no answer for as long as a request may take.
type silentError struct {
	host string
	err  error
}

func (e *silentError) Error() string {
	return fmt.Sprintf("no answer of %s within %s: %v", e.host, requestTimeout, e.err)
}

// Unwrap returns the error underneath.
func (e *silentError) Unwrap() error { return e.err }

// judge says whether another region may answer better, and whether this one is down.
func judge(r *http.Response, err error) (elsewhere, down bool) {
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
		return sub == wire.SubReadSessionNotAvailable, false
	case http.StatusRequestTimeout, http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return true, false
	}
	return false, false
}

// unreachable reports whether an error tells that no connection was made, or that nothing came over it: a stronger sign than a
// connection that was lost.
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

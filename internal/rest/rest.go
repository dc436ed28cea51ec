// Package rest sends requests that no public package has, such as the create of a database,
// through the pipeline of an account: with its signature, its regions, its retries and its
// user agent. Package cosmos assigns [Send]. The command uses it; programs of users reach for
// azcosmos instead.
package rest

import (
	"context"
	"net/http"
)

// Request is a request of the REST protocol.
type Request struct {
	// Operation names the request in traces and in errors: "create database shop".
	Operation string
	// Method is the HTTP method. If empty, it is GET.
	Method string
	// Path is the escaped path of the URL.
	Path string
	// Header has the headers besides those that every request has.
	Header http.Header
	// Body is JSON, or nil.
	Body []byte
}

// Response is the answer to a [Request] that was not refused.
type Response struct {
	Header http.Header
	Body   []byte
}

// Send sends a request through the pipeline of account, a *cosmos.Account. All requests go
// to the region of writes, so that a read finds what was just created. A request that is
// throttled is repeated for a while. A refusal by the service is an error that wraps an
// *azcore.ResponseError. Send is safe for concurrent use.
var Send func(ctx context.Context, account any, r Request) (Response, error)

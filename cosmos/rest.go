package cosmos

import (
	"context"
	"fmt"
	"net/http"

	"github.com/changefeed-go/changefeed/internal/follow"
	"github.com/changefeed-go/changefeed/internal/rest"
)

// throttledAttempts is the number of times that a request of package rest is sent before its
// 429 is returned. SDKs send as often.
const throttledAttempts = 10

func init() {
	rest.Send = func(ctx context.Context, account any, r rest.Request) (rest.Response, error) {
		a, ok := account.(*Account)
		if !ok {
			return rest.Response{}, fmt.Errorf("%s: %T is not an account", r.Operation, account)
		}
		return a.send(ctx, r)
	}
}

func (a *Account) send(ctx context.Context, r rest.Request) (rest.Response, error) {
	for attempt := 1; ; attempt++ {
		q := &call{
			span: "Account.Send", op: r.Operation, method: r.Method, path: r.Path, header: r.Header, body: r.Body, writes: true, early: true, free: true,
		}
		got, err := a.client.do(ctx, q)
		switch {
		case err != nil:
			return rest.Response{}, err
		case got.failure == nil:
			return rest.Response{Header: got.header, Body: got.body}, nil
		case got.status != http.StatusTooManyRequests || attempt == throttledAttempts:
			return rest.Response{}, got.failure
		}
		if err := follow.Sleep(ctx, max(got.wait(), leastPause)); err != nil {
			return rest.Response{}, err
		}
	}
}

package connect

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
)

// The advice for an answer must name the flags of the account that answered, although SDKs
// make the error from the answer by themselves.
func TestAdviceForAnAnswerNamesItsAccount(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := sender{client: server.Client(), names: names{prefix: "lease-"}}.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if got := Advice(runtime.NewResponseError(answer)); !strings.Contains(got, "--lease-key") {
		t.Errorf("the advice is %q", got)
	}
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
}

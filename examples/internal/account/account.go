// Package account is what the examples have in common: which account they talk to.
package account

import (
	"errors"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azidentity"

	"github.com/changefeed-go/changefeed/cosmos"
)

// FromEnvironment is the account of COSMOS_CONNECTION_STRING, or of COSMOS_ENDPOINT: with COSMOS_KEY by
// that key, else by Entra ID, as whom the machine or the developer is signed in (azidentity's
// DefaultAzureCredential).
func FromEnvironment() (*cosmos.Account, error) {
	if text := os.Getenv("COSMOS_CONNECTION_STRING"); text != "" {
		return cosmos.WithConnectionString(text, cosmos.Options{})
	}
	endpoint := os.Getenv("COSMOS_ENDPOINT")
	if endpoint == "" {
		return nil, errors.New("set COSMOS_ENDPOINT, and COSMOS_KEY unless you are signed in; `changefeed serve --tls off` prints both")
	}
	if key := os.Getenv("COSMOS_KEY"); key != "" {
		return cosmos.WithKey(endpoint, key, cosmos.Options{})
	}
	credential, err := azidentity.NewDefaultAzureCredential(nil)
	if err != nil {
		return nil, err
	}
	return cosmos.WithCredential(endpoint, credential, cosmos.Options{})
}

package azcosmos

import (
	"context"
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/policy"
	"github.com/Azure/azure-sdk-for-go/sdk/data/azcosmos"
)

// emulatorCredential creates tokens that the local emulators accept. Such a token is a
// JWT that names the emulators' primary key. Its signature is the text of that key.
type emulatorCredential struct{ key string }

func (c emulatorCredential) GetToken(context.Context, policy.TokenRequestOptions) (azcore.AccessToken, error) {
	now := time.Now()
	until := now.Add(2 * time.Hour)
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	header := `{"typ":"JWT","alg":"RS256","x5t":"CosmosEmulatorPrimaryMaster","kid":"CosmosEmulatorPrimaryMaster"}`
	claims := fmt.Sprintf(`{"appid":"localhost","oid":"96313034-4739-43cb-93cd-74193adbe5b6","sub":"localhost","tid":"EmulatorFederation","ver":"1.0",`+
		`"scp":"user_impersonation","nbf":%d,"exp":%d,"iat":%d,"iss":"https://sts.fake-issuer.net/7b1999a1-dfd7-440e-8204-00170979b984","aud":"https://localhost.localhost"}`,
		now.Unix(), until.Unix(), now.Unix())
	return azcore.AccessToken{Token: part(header) + "." + part(claims) + "." + part(c.key), ExpiresOn: until}, nil
}

func TestTokenOfTheEmulatorsForm(t *testing.T) {
	env.Scenario(t, "emulator-token", func(t *testing.T) {
		c, ctx := container(t), t.Context()
		by := func(key string) *azcosmos.ContainerClient {
			account, err := azcosmos.NewClient(env.Endpoint+"/", emulatorCredential{key}, nil)
			ok(t, err)
			t.Cleanup(account.Close)
			same, err := account.NewContainer(databaseOf(c), c.ID())
			ok(t, err)
			return same
		}
		_, err := by(env.Key).UpsertItem(ctx, pk("p"), item{"1", "p", 1}.json(), nil)
		ok(t, err)
		r, err := by(env.Key).ReadItem(ctx, pk("p"), "1", nil)
		ok(t, err)
		equal(t, decode[item](t, r.Value).V, 1, "the item")
		_, err = by("d3Jvbmc=").ReadItem(ctx, pk("p"), "1", nil)
		refused(t, err, 401)
	})
}

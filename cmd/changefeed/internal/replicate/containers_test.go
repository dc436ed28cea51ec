package replicate

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/connect"
	"github.com/changefeed-go/changefeed/internal/wire"
	"github.com/changefeed-go/changefeed/server"
	"github.com/changefeed-go/changefeed/storetype"
)

// A container may not be both the source and the target, even if its account has two
// names, such as 127.0.0.1 and localhost.
func TestReplicateRefusesOneContainerInTwoRolesUnderTwoNames(t *testing.T) {
	db := changefeedtest.NewStore(t)
	for _, id := range []string{"orders", "copy", "leases"} {
		changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: id, KeyPaths: []string{"/id"}})
	}
	handler, err := server.New(db, server.Options{Keys: []string{wire.EmulatorKey}})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(handler)
	t.Cleanup(func() { handler.Drain(); s.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	open := func(endpoint string) *connect.Opened {
		o, err := connect.NewAccount("").OpenSettings(connect.Settings{Endpoint: endpoint, Key: wire.EmulatorKey})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := o.Close(); err != nil {
				t.Error(err)
			}
		})
		return o
	}
	here, there := open(s.URL), open(strings.Replace(s.URL, "127.0.0.1", "localhost", 1))
	for want, cfg := range map[string]Config{
		"cannot be copied into itself": {From: Container{here, "shop", "orders"}, To: Container{there, "shop", "orders"}, Leases: Container{here, "shop", "leases"}},
		"is the source and the lease":  {From: Container{here, "shop", "orders"}, To: Container{here, "shop", "copy"}, Leases: Container{there, "shop", "orders"}},
		"is the target and the lease":  {From: Container{here, "shop", "orders"}, To: Container{there, "shop", "copy"}, Leases: Container{here, "shop", "copy"}},
	} {
		cfg.Out = &lines{}
		err := Run(ctx, cfg)
		if refused, ok := errors.AsType[*ConfigError](err); !ok || !strings.Contains(refused.Error(), want) {
			t.Errorf("%v; want a ConfigError that says %q", err, want)
		}
	}
}

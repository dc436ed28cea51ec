package lease

import (
	"slices"
	"testing"

	"github.com/changefeed-go/changefeed/feed"
)

// The ids of leases have the processor's name and the account's host without anything between
// them. A processor whose name begins like another one's must not be warned of the other's
// leases, nor told to delete them.
func TestOtherHostsAreThoseOfTheSameProcessorOnly(t *testing.T) {
	const infix = "_AAAA==_AAAAAAA=.."
	for _, c := range []struct {
		processor, own string
		heads          []string // processor and host of the ids
		want           []string
	}{
		{"orders", "localhost", []string{"orderslocalhost"}, nil},
		{"orders", "localhost", []string{"orderslocalhost", "orders127.0.0.1"}, []string{"127.0.0.1"}},
		{"orders", "127.0.0.1", []string{"ordersLOCALHOST"}, []string{"localhost"}},
		{"orders", "a.documents.azure.com", []string{"ordersa-east.documents.azure.com", "orders[::1]"}, []string{"[::1]", "a-east.documents.azure.com"}},
		{"orders1", "127.0.0.1", []string{"orders127.0.0.1"}, nil},     // of the processor "orders"
		{"pay", "localhost", []string{"pay-v2127.0.0.1"}, nil},         // of "pay-v2"
		{"pay", "localhost", []string{"payv2127.0.0.1"}, nil},          // of "payv2"
		{"pay", "localhost", []string{"payrolllocalhost"}, nil},        // of "payroll"
		{"pay", "localhost", []string{"pay_b127.0.0.1"}, nil},          // of "pay_b"
		{"pay", "localhost", []string{"payvm", "pay", "other.b"}, nil}, // a word, nothing, another processor
		{"pay", "localhost", []string{"paydb.corp", "payrolldb.corp"}, []string{"db.corp"}},
	} {
		k := Key{Processor: c.processor, Identity: feed.Identity{
			AccountHost: c.own, Database: "shop", DatabaseRID: "AAAA==", Container: "orders", ContainerRID: "AAAAAAA=",
		}}
		codec, err := NewCodec(DotNet, k, false)
		if err != nil {
			t.Fatal(err)
		}
		var ids []string
		for _, head := range c.heads {
			ids = append(ids, head+infix+"0")
		}
		if got := codec.OtherHosts(ids); !slices.Equal(got, c.want) {
			t.Errorf("processor %q at %s, ids of %q: %q; want %q", c.processor, c.own, c.heads, got, c.want)
		}
	}
}

package sonicjson_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/changefeed-go/changefeed/sonicjson"
)

// order has members of the kinds that documents have.
type order struct {
	ID       string `json:"id"`
	Customer struct {
		Name string
		VIP  bool `json:"vip"`
	} `json:"customer"`
	Lines []struct {
		SKU      string  `json:"sku"`
		Quantity int     `json:"quantity"`
		Price    float64 `json:"price"`
	} `json:"lines"`
	Notes map[string]any  `json:"notes"`
	Paid  *time.Time      `json:"paid"`
	Raw   json.RawMessage `json:"raw"`
}

const document = `{"id":"7","customer":{"name":"Ada","vip":true},"lines":[{"sku":"A","quantity":2,"price":9.5},{"sku":"B","quantity":1,"price":1e3}],` +
	`"notes":{"a":1,"b":[null,"x"]},"paid":"2026-11-28T09:30:00Z","raw":{"x":[1,2]},"_rid":"abc==","_etag":"\"0000\"","_ts":1764322200}`

// Whoever changes the decoder must get the same values.
func TestValuesAreThoseOfEncodingJSON(t *testing.T) {
	for name, text := range map[string]string{
		"plain":           document,
		"other case":      `{"ID":"7","Customer":{"NAME":"Ada","VIP":true}}`,
		"a name twice":    `{"id":"1","id":"7"}`,
		"invalid UTF-8":   "{\"id\":\"a\xffb\"}",
		"null members":    `{"id":"7","lines":null,"paid":null,"notes":null}`,
		"empty":           `{}`,
		"wrong type":      `{"id":7}`,
		"a large number":  `{"lines":[{"quantity":1e400}]}`,
		"not JSON":        `{"id":`,
		"another value":   `[1]`,
		"trailing text":   `{"id":"7"} x`,
		"escaped letters": `{"id":"\u00e9\ud83d\ude00","lines":[{"sku":"\n"}]}`,
	} {
		var want, got order
		wantErr, err := json.Unmarshal([]byte(text), &want), sonicjson.Unmarshal([]byte(text), &got)
		if (err == nil) != (wantErr == nil) {
			t.Errorf("%s: %v; encoding/json: %v", name, err, wantErr)
		}
		if err == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v; encoding/json: %+v", name, got, want)
		}
	}
}

// A string that a handler keeps must not change, nor keep a page in memory.
func TestStringsAreCopied(t *testing.T) {
	data := []byte(`{"id":"seven"}`)
	var o order
	if err := sonicjson.Unmarshal(data, &o); err != nil {
		t.Fatal(err)
	}
	for i := range data {
		data[i] = 'x'
	}
	if o.ID != "seven" {
		t.Errorf("the string is %q after its document was overwritten", o.ID)
	}
}

func BenchmarkUnmarshal(b *testing.B) {
	for name, decode := range map[string]func([]byte, any) error{"encoding-json": json.Unmarshal, "sonicjson": sonicjson.Unmarshal} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(document)))
			for b.Loop() {
				var o order
				if err := decode([]byte(document), &o); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func ExampleUnmarshal() {
	var o order
	if err := sonicjson.Unmarshal([]byte(`{"id":"7","customer":{"name":"Ada"}}`), &o); err != nil {
		panic(err)
	}
	fmt.Println(o.ID, o.Customer.Name)
	// Output: 7 Ada
}

package value

import (
	"bytes"
	"testing"
)

// hashed has arrays and objects with the hashes that .NET's SDK 3.64.0 sent for them when it
// resumed a query that was sorted by them.
var hashed = []struct {
	json      string
	low, high int64
}{
	{`[null]`, 3422993424334941761, 4507694720966932533},
	{`[true]`, 6029198990314683610, 3209706050120083421},
	{`[false]`, -3177084224444762298, 8828444787757411411},
	{`["s"]`, 8255653515244536249, 2980632651296008415},
	{`[[]]`, 6407559614491956092, 5865512470172173801},
	{`[{}]`, 4900695079159290408, -2142472711149939363},
	{`{"a": []}`, 7064416811217931749, 8009544188684331185},
	{`{"a": null}`, -8313990327064969597, 9152723993388313717},
	{`{"a": "x"}`, -7247658842639654966, -4693979480466860234},
	{`[1.5]`, -5305828395466136052, 8573855073990713471},
	{`[0]`, 744847658927082520, -5823992772122102489},
	{`[1]`, 3156792105152516121, -4093997899287633148},
	{`[3]`, -901157111448773036, 291998428775818922},
	{`[-1]`, -3780742652222240476, 7261102486425313078},
	{`[9007199254740993]`, -349293961258373403, -5222653705786626984},
	{`[-9007199254740993]`, 5178398767314723581, 6525080270262812129},
	{`[null, null]`, 7445786561298959591, 7413017573087898962},
	{`["", "é\u0000x"]`, 8058414886024500912, 5916760280652585411},
	{`{"a": null, "b": null}`, -2037443025947422326, 319307127024683337},
	{`[1e+300]`, -3982522086496791460, 3956499772242412281},
	{`[-0.0]`, 744847658927082520, -5823992772122102489},
	{`[1000000000000000.0]`, 5405070224150725283, 5977061268865074256},
	{`[-5]`, -1115903755238568157, -1315020096009659593},
	{`{}`, 1457042291250783704, 1493060239874959160},
	{`[]`, -6706074647855398782, 9031114912533472255},
	{`{"a": null, "c": true, "b": ["x"]}`, 738210992821137633, 4016854512955382017},
	{`[9223372036854775807]`, -6960465968865239384, -776735989411710482},
	{`[-9223372036854775808]`, -801373194752728666, -7274945450247152165},
	{`[0.1]`, 5019802193807871614, -5123434044144690341},
}

func TestArraysAndObjectsAreSortedByTheHashOfTheSDK(t *testing.T) {
	for _, h := range hashed {
		v := Decode([]byte(h.json))
		got, want := AppendOrderKey(nil, v), AppendHashedKey(nil, v.Kind, uint64(h.low), uint64(h.high)) //nolint:gosec // the SDK sends the bits as signed numbers
		if !bytes.Equal(got, want) {
			t.Errorf("%s has the key %x, want %x", h.json, got, want)
		}
	}
	// The SDK merges the rows of several partitions. It compares the bytes of the hashes, the
	// lowest first.
	for _, ascending := range [][]string{{`[1]`, `[1,2]`, `[3]`, `[]`, `[[2]]`}, {`{"b":[1]}`, `{"a":2}`, `{"a":1,"b":2}`, `{}`, `{"a":1}`}} {
		var last []byte
		for _, text := range ascending {
			key := AppendOrderKey(nil, Decode([]byte(text)))
			if bytes.Compare(key, last) <= 0 {
				t.Errorf("%s is not after the value before it", text)
			}
			last = key
		}
	}
	for _, same := range [][2]string{{`{"a":1,"b":[2]}`, `{"b":[2.0],"a":1e0}`}, {`[0]`, `[-0.0]`}} {
		if a, b := AppendOrderKey(nil, Decode([]byte(same[0]))), AppendOrderKey(nil, Decode([]byte(same[1]))); !bytes.Equal(a, b) {
			t.Errorf("%s and %s have different keys", same[0], same[1])
		}
	}
}

package engine

import (
	"math"
	"testing"
)

// The charges of creates are recorded ones of the service.
func TestChargesAreTheRecordedOnes(t *testing.T) {
	for body, want := range map[string]float64{
		`{"id":"1","pk":"p"`:                             5.90,
		`{"id":"1","pk":"p","s":"a\"b,:]"`:               6.29,
		`{"id":"1","pk":"p","n":-1.5e3,"t":true`:         6.67,
		`{"id":"1","pk":"p","n":1,"grp":2,"txt":"row 1"`: 7.05,
		`{"id":"1","pk":"p","a":1,"b":2,"c":3,"d":4,"e":5,"f":6,"g":7,"h":8,"i":9,"j":10,"k":11,"l":null`: 10.48,
		`{"id":"1","pk":"t","i":42,"f":1.5,"t":true,"fa":false,"nu":null,"s":"h","arr":[1,"a",null,[2]],"obj":{"a":{"b":1}},"emp":"","ea":[],"eo":{},` +
			`"ts":"2","dt":"2","tm":"1","uuid":"1","b64":"A","dec":"1"`: 14.29,
	} {
		if got := createCharge([]byte(body), 200, 0); math.Abs(got-want) > 0.005 {
			t.Errorf("%s costs %.3f RU, want %v", body, got, want)
		}
	}
	if got := createCharge([]byte(`{"id":"2","pk":"p","email":"a@b"`), 0, 1) * conflictShare; math.Abs(got-1.94) > 0.005 {
		t.Errorf("a violated unique key costs %.3f RU", got)
	}
	for size, want := range map[int]float64{0: 1, 1024: 1, 2048: 1.09, 100 * 1024: 10} {
		if got := readCharge(size); math.Abs(got-want) > 0.005 {
			t.Errorf("a read of %d bytes costs %v RU, want %v", size, got, want)
		}
	}
	if got := replaceCharge(assumedTerms, 0); math.Abs(got-10.67) > 0.005 {
		t.Errorf("a replace costs %v RU", got)
	}
}

package epk

import (
	"bytes"
	"cmp"
	"math"
	"slices"
	"strings"
	"testing"
)

func num(f float64) Component { return OfNumber(f) }
func str(s string) Component  { return OfString(s) }

var (
	undef = Component{}
	null  = Component{Kind: Null}
	yes   = OfBool(true)
	no    = OfBool(false)
)

// The hash V2 must return the same values as the SDKs. The expected values come from the
// hashing of the JavaScript SDK, the routing functions of the Go SDK, and the unit tests
// of .NET.
func TestV2EqualsTheVectorsOfTheSDKs(t *testing.T) {
	for _, c := range []struct {
		value Component
		want  string
	}{
		{str(""), "32E9366E637A71B4E710384B2F4970A0"},
		{str("a"), "3A5381E1114EB8D3FCC90795045B49B7"},
		{str("partitionKey"), "013AEFCF77FA271571CF665A58C933F1"},
		{str("redmond"), "22E342F38A486A088463DFF7838A5963"},
		{str(`a"b`), "0EC015C25A50BD995054C5B1B2737E73"},
		{str("é"), "007199F104E04116EE25AF912CA4889B"},
		{str("Привет!"), "053328BF5C4A49E3C7DEF384989C6E5D"},
		{str("日本"), "2F64A78CFF1F1D412A8B6220090E9767"},
		{str("😀"), "28D7FCB721E75FBE0DAC3D71DAB82766"},
		{str("a\x00b"), "1B3FD025E76645CED4D34BF084ED3B74"},
		{str(strings.Repeat("a", 99)), "3C02F609961C32AAC2B912B940D1209A"},
		{str(strings.Repeat("a", 100)), "0DBD7D229437BB665DE6417747994D57"},
		{str(strings.Repeat("a", 101)), "08042541D30C8BF90D7092B1519AE0BC"},
		{str(strings.Repeat("a", 1024)), "332BDF5512AE49615F32C7D98C2DB86C"},
		{num(0), "155B95BEDAC4B1E9EC1CDC9BB0DDDE58"},
		{num(math.Copysign(0, -1)), "155B95BEDAC4B1E9EC1CDC9BB0DDDE58"},
		{Component{Kind: Number, Number: math.Copysign(0, -1)}, "155B95BEDAC4B1E9EC1CDC9BB0DDDE58"},
		{num(1), "20CD98B339BA78A5D0CF6953B87070B0"},
		{num(-1), "19938E7A936C1C5B9E3AE842BBC16839"},
		{num(2), "11BEC098BB8A08943F0A144281ACC26C"},
		{num(5), "19C08621B135968252FB34B4CF66F811"},
		{num(42), "08E6D561F6FD951DCC25E7E4EA2884B5"},
		{num(0.1), "21DEBA97B3AF01087F4E1F889B0A7739"},
		{num(-3.75), "3AAA70EA01BCFAC7341455516F7E4C86"},
		{num(5.123124190509124), "0EF2E2D82460884AF0F6440BE4F726A8"},
		{num(1e21), "00F95F627D6884BCDB7D661839BEB420"},
		{num(-1e-7), "16DC7970C94A0623D8B60A1CF4D551FE"},
		{num(9007199254740991), "12C221C7032CED1F9E6693CE1428E6CF"},
		{num(1700000000000), "2D9A8BFC049DBA443A1DF9F0F64BAAD9"},
		{yes, "0E711127C5B5A8E4726AC6DD306A3E59"},
		{no, "2FE1BE91E90A3439635E0E9E37361EF2"},
		{null, "378867E4430E67857ACE5C908374FE16"},
		{undef, "11622DAA78F835834610ABE56EFF5CB5"},
	} {
		if got := Hex(V2.Append(nil, []Component{c.value})); got != c.want {
			t.Errorf("V2(%+v) = %s, want %s", c.value, got, c.want)
		}
	}
	row := []Component{num(5), str("redmond"), yes, null}
	if got, want := Hex(V2.Append(nil, row)), "3032DECBE2AB1768D8E0AEDEA35881DF"; got != want {
		t.Errorf("V2 of four components = %s, want %s", got, want)
	}
}

func TestMultiHashEqualsTheVectorsOfTheSDKs(t *testing.T) {
	for _, c := range []struct {
		key  []Component
		want string
	}{
		{[]Component{str("t1")}, "3D48BB14DA9D090D22112C96695028B6"},
		{[]Component{str("t1"), str("u1")}, "3D48BB14DA9D090D22112C96695028B62A947C94F6E254B945CEBC3196C9897C"},
		{[]Component{str("t1"), str("u1"), str("s1")}, "3D48BB14DA9D090D22112C96695028B62A947C94F6E254B945CEBC3196C9897C2924A879AFFF52A411F93F1A83532751"},
		{[]Component{str("tenant"), str("ü"), num(7)}, "3B67F777541374F849FC7793DE5DF91537D92BE2B32495A87CD16033AB6626B436ECBAF0D9CC21F10F0938014BB52739"},
		{[]Component{str("t1"), null}, "3D48BB14DA9D090D22112C96695028B6378867E4430E67857ACE5C908374FE16"},
		{[]Component{str("t1"), undef}, "3D48BB14DA9D090D22112C96695028B611622DAA78F835834610ABE56EFF5CB5"},
		{[]Component{yes, num(-1.5), str("x")}, "0E711127C5B5A8E4726AC6DD306A3E59151793206780805FF6E1DCAE6C787B6A11E3F358618BE9AA5BAFF4C7C74F0716"},
	} {
		if got := Hex(MultiHash.Append(nil, c.key)); got != c.want {
			t.Errorf("MultiHash(%+v) = %s, want %s", c.key, got, c.want)
		}
	}
}

func TestV1EqualsTheConstantsOfTheService(t *testing.T) {
	a100 := "05C1EB5921F70608" + strings.Repeat("62", 100) + "00"
	cyrillic := "абвгдеёжзийклмнопрстуфхцчшщъыьэюя" + "абвгдеёжзийклмнопр"
	cyrillicWant := "05C1EB1F29DBFA08"
	for _, b := range []byte(cyrillic)[:101] {
		cyrillicWant += Hex([]byte{b + 1})
	}
	if !strings.HasPrefix(cyrillicWant, "05C1EB1F29DBFA08D1B1D1B2") || !strings.HasSuffix(cyrillicWant, "D1C0D2") {
		t.Fatalf("the expectation itself is wrong: %s", cyrillicWant)
	}
	for _, c := range []struct {
		key  []Component
		want string
	}{
		{[]Component{str("")}, "05C1CF33970FF80800"},
		{[]Component{str("a")}, "05C1D78593652C086200"},
		{[]Component{str("redmond")}, "05C1EFE313830C087366656E706F6500"},
		{[]Component{str("partitionKey")}, "05C1E1B3D9CD2608716273756A756A706F4C667A00"},
		{[]Component{str("é")}, "05C1B3CD91912008C4AA00"},
		{[]Component{str("Привет!")}, "05C1EF1FF5910E08D1A0D281D1B9D1B3D1B6D2832200"},
		{[]Component{str("😀")}, "05C1814D5F9C08F1A0998100"},
		{[]Component{str(strings.Repeat("a", 100))}, a100},
		{[]Component{str(strings.Repeat("a", 101))}, a100},
		{[]Component{str(strings.Repeat("a", 1024))}, a100},
		{[]Component{str(cyrillic)}, cyrillicWant},
		{[]Component{num(0)}, "05C1BF6DA11560058000"},
		{[]Component{num(1)}, "05C1ED172B6B2605BFF0"},
		{[]Component{num(-1)}, "05C1D1A5BDDF9C054010"},
		{[]Component{num(2)}, "05C1D93569113805C000"},
		{[]Component{num(5)}, "05C1D9C1C5517C05C014"},
		{[]Component{num(0.1)}, "05C1D92733D70405BFB9CD673399CD6734"},
		{[]Component{num(-3.75)}, "05C1D359593724053FF2"},
		{[]Component{num(1e21)}, "05C1E3013BEB6E05C44B8DB99B6F17BDA0"},
		{[]Component{num(9007199254740991)}, "05C1B3FBA771A005C33FFFFFFFFFFFFFFE"},
		{[]Component{yes}, "05C1D7C5A903D803"},
		{[]Component{no}, "05C1DB857D857C02"},
		{[]Component{null}, "05C1ED45D7475601"},
		{[]Component{undef}, "05C1D529E345DC00"},
		{[]Component{num(2), yes, no, null, undef, str("Привет!")}, "05C1D19581B37C05C0000302010008D1A0D281D1B9D1B3D1B6D2832200"},
	} {
		if got := Hex(V1.Append(nil, c.key)); got != c.want {
			t.Errorf("V1(%+v) = %s, want %s", c.key, got, c.want)
		}
	}
}

// Keys that V1 cannot tell apart are one logical partition. MayShare must hold for all of
// them, because a query counts documents by the index alone where it does not.
func TestLogicalPartitionsOfV1(t *testing.T) {
	x := func(n int, end string) Component { return str(strings.Repeat("x", n) + end) }
	e := func(n int, end string) Component { return str(strings.Repeat("é", n) + end) }
	for _, c := range []struct {
		a, b Component
		same bool
	}{
		{x(101, "a"), x(101, "b"), true},
		{x(100, ""), x(100, "b"), true},
		{x(100, ""), x(5000, ""), true},
		{x(99, "a"), x(99, "b"), false},
		{x(99, ""), x(100, ""), false},
		{e(100, "a"), e(100, "b"), true},
		{e(60, "a"), e(60, "b"), false}, // the hash looks at 100 characters, the rest of the EPK at 101 bytes
		{str("a"), str("b"), false},
		{num(0), num(math.Copysign(0, -1)), true},
		{num(1), str("1"), false},
		{null, undef, false},
	} {
		a, b := []Component{null, c.a, yes}, []Component{null, c.b, yes}
		if got := bytes.Equal(V1.Append(nil, a), V1.Append(nil, b)); got != c.same || V1.SamePartition(a, b) != c.same {
			t.Errorf("%.8v and %.8v: one EPK: %v, one partition: %v; want %v", c.a, c.b, got, V1.SamePartition(a, b), c.same)
		}
		if c.same && c.a != c.b && !V1.MayShare(a) {
			t.Errorf("%.8v is not alone", c.a)
		}
		for _, h := range []Hash{V2, MultiHash} {
			if h.SamePartition(a, b) != slices.Equal(a, b) || h.MayShare(a) {
				t.Errorf("%s: %.8v and %.8v", h, c.a, c.b)
			}
		}
	}
}

func TestV1CutsCodeUnits(t *testing.T) {
	long := strings.Repeat("é", 100)
	if got := cut(str(long + "x")).Text; got != long {
		t.Errorf("100 two-byte characters were cut to %d bytes", len(got))
	}
	pairs := strings.Repeat("😀", 50) // two code units each
	if got := cut(str(pairs + "x")).Text; got != pairs {
		t.Errorf("50 surrogate pairs were cut to %d bytes", len(got))
	}
	if got, want := cut(str("x"+pairs)).Text, "x"+strings.Repeat("😀", 49)+"\uFFFD"; got != want {
		t.Errorf("a halved pair became %q", got[len(got)-4:])
	}
}

// FuzzV1 checks properties that the store's keys rely on. V1 encodings sort like their
// numbers and can be read back. No point is a prefix of another one.
func FuzzV1(f *testing.F) {
	f.Add(1.0, 2.0, "a", "ab")
	f.Add(0.0, -0.5, strings.Repeat("é", 70), strings.Repeat("é", 71))
	f.Add(math.MaxFloat64, math.SmallestNonzeroFloat64, "", "\x00")
	f.Fuzz(func(t *testing.T, x, y float64, s, u string) {
		if math.IsNaN(x) || math.IsNaN(y) {
			t.Skip("JSON has no NaN")
		}
		x, y = OfNumber(x).Number, OfNumber(y).Number
		a, b := appendV1Number(nil, x), appendV1Number(nil, y)
		if len(a) < 3 {
			t.Fatalf("%v: nothing follows the first byte: %x", x, a)
		}
		if got, want := bytes.Compare(a, b), cmp.Compare(x, y); got != want {
			t.Fatalf("order of %v and %v: %d, want %d", x, y, got, want)
		}
		if back, ok := parseV1Number(append(bytes.Clone(a), 0xAB)); !ok || back != x {
			t.Fatalf("%v was read back as %v, %v", x, back, ok)
		}
		parseV1Number([]byte(s)) // must not panic
		for _, h := range []Hash{V1, V2, MultiHash} {
			p := h.Append(nil, []Component{str(s), num(x)})
			q := h.Append(nil, []Component{str(u), num(y)})
			if !bytes.Equal(p, q) && (bytes.HasPrefix(p, q) || bytes.HasPrefix(q, p)) {
				t.Fatalf("%s: point %x is a prefix of %x", h, p, q)
			}
			if hx := Hex(p); hx < Min || hx >= Max {
				t.Fatalf("%s: point %s lies outside the key space", h, hx)
			}
		}
	})
}

func BenchmarkAppendV2(b *testing.B) {
	key := []Component{str("airport-LHR")}
	var dst [16]byte
	b.ReportAllocs()
	for b.Loop() {
		V2.Append(dst[:0], key)
	}
}

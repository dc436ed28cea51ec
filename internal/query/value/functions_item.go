package value

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
)

// itemFunctions are the functions of whole documents.
var itemFunctions = map[string]Function{
	"DOCUMENTID": {class: classItem, min: 1, max: 1, eval: documentID},
}

// documentID is the number of a document in its container, which the last 8
// bytes of its _rid tell: the lowest first, as the service writes it, or 4 bytes
// from the highest to the lowest and the same 4 the other way round, as the
// embedded store does. Of anything else it is undefined.
func documentID(a []Value) Value {
	if a[0].Kind != Object {
		return Value{}
	}
	rid := Lookup(a[0].Bytes, []byte("_rid"))
	if rid.Kind != String {
		return Value{}
	}
	// A rid is base64 with - for /.
	text := bytes.ReplaceAll(rid.Bytes, []byte("-"), []byte("/"))
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil || len(b) != 16 {
		return Value{}
	}
	if n := binary.BigEndian.Uint32(b[8:]); n == binary.LittleEndian.Uint32(b[12:]) {
		return OfNumber(float64(n))
	}
	return OfNumber(float64(binary.LittleEndian.Uint64(b[8:])))
}

package epk

import (
	"encoding/binary"
	"math"
)

// Kind is the type of a [Component]. Its values are the markers that the hashes put
// before each component.
type Kind uint8

// The kinds of Component.
const (
	// Undefined is the component whose property is missing from the document.
	Undefined Kind = 0x00
	Null      Kind = 0x01
	False     Kind = 0x02
	True      Kind = 0x03
	Number    Kind = 0x05
	String    Kind = 0x08
)

// Component is the value at one of a container's partition key paths. The zero Component
// is undefined. Components can be compared with == after [Component.Normal]. A NaN, which
// JSON does not have, is not equal to itself.
type Component struct {
	Kind Kind
	// Number is set when Kind is Number, and Text (UTF-8) when it is String.
	Number float64
	Text   string
}

// OfNumber returns the component of a number. It replaces -0 by 0, because JSON readers
// disagree about -0, and a key must not depend on its writer.
func OfNumber(f float64) Component {
	return Component{Kind: Number, Number: f}.Normal()
}

// OfString returns the component of a string.
func OfString(s string) Component { return Component{Kind: String, Text: s} }

// OfBool returns the component of true or false.
func OfBool(b bool) Component {
	if b {
		return Component{Kind: True}
	}
	return Component{Kind: False}
}

// Normal returns c with -0 replaced by 0 and unused fields zero.
func (c Component) Normal() Component {
	switch c.Kind {
	case Number:
		if c.Number == 0 {
			return Component{Kind: Number}
		}
		return Component{Kind: Number, Number: c.Number}
	case String:
		return Component{Kind: String, Text: c.Text}
	case Undefined, Null, False, True:
	}
	return Component{Kind: c.Kind}
}

// append appends the hashed form: the marker, and then the eight little-endian bytes of a
// number, or the UTF-8 of a string and a terminator.
func (c Component) append(dst []byte, terminator byte) []byte {
	dst = append(dst, byte(c.Kind))
	switch c.Kind {
	case Number:
		return binary.LittleEndian.AppendUint64(dst, math.Float64bits(c.Normal().Number))
	case String:
		dst = append(dst, c.Text...)
		return append(dst, terminator)
	case Undefined, Null, False, True:
	}
	return dst
}

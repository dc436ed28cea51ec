package query

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

// errNotObject is the error for a document whose JSON is not an object.
var errNotObject = errors.New("the document is not a JSON object")

// noSlot is the slot of a node whose own value no expression reads. Only parts of its
// value are read.
const noSlot = -1

// node is one step of a path in documents, in a tree of all paths that a query reads.
// With this tree, one pass over a document finds all values and decodes nothing else.
type node struct {
	slot     int // the slot of the value
	members  []edge
	byName   map[string]*node // replaces the search of members if there are many
	elements map[int]*node
}

type edge struct {
	name string
	to   *node
}

// manyMembers is the number of a node's members above which byName is used, because a map
// is then faster than a linear search.
const manyMembers = 8

func newNode() *node { return &node{slot: noSlot} }

// at returns the node at a path below n, and creates missing nodes.
func (n *node) at(path []step) *node {
	for _, s := range path {
		next := n.next(s)
		if next == nil {
			next = newNode()
			n.link(s, next)
		}
		n = next
	}
	return n
}

func (n *node) next(s step) *node {
	if s.index < 0 {
		return n.member([]byte(s.name))
	}
	return n.elements[s.index]
}

func (n *node) link(s step, to *node) {
	if s.index >= 0 {
		if n.elements == nil {
			n.elements = map[int]*node{}
		}
		n.elements[s.index] = to
		return
	}
	n.members = append(n.members, edge{s.name, to})
	switch {
	case n.byName != nil:
		n.byName[s.name] = to
	case len(n.members) > manyMembers:
		n.byName = map[string]*node{}
		for _, e := range n.members {
			n.byName[e.name] = e.to
		}
	}
}

func (n *node) member(name []byte) *node {
	if n.byName != nil {
		return n.byName[string(name)]
	}
	for i := range n.members {
		if n.members[i].name == string(name) {
			return n.members[i].to
		}
	}
	return nil
}

// leaf reports whether the query reads no part of the node's value.
func (n *node) leaf() bool { return len(n.members) == 0 && len(n.elements) == 0 }

// extractor finds the values at the nodes of a tree in a document and stores them in
// slots. A slot holds a part of the document's bytes, or nil if the document does not
// have the path.
type extractor struct {
	slots [][]byte
	left  int // number of empty slots
	buf   bytes.Buffer
	dec   jsontext.Decoder
}

// looped is the extractor of a binding other than the document. list is the decoder for an
// array whose elements each visits, and listBuf holds the array.
type looped struct {
	extractor
	listBuf bytes.Buffer
	list    jsontext.Decoder
}

// extract fills the slots from the document doc, for the paths below root. It returns
// errNotObject if doc is not an object.
func (x *extractor) extract(root *node, doc []byte) error {
	clear(x.slots)
	x.left = len(x.slots)
	if len(doc) > 0 && doc[0] != '{' {
		doc = bytes.TrimLeft(doc, " \t\r\n")
	}
	if root.slot != noSlot {
		x.fill(root.slot, doc)
	}
	if root.leaf() || x.left == 0 {
		if len(doc) == 0 || doc[0] != '{' {
			return errNotObject
		}
		return nil
	}
	x.buf = *bytes.NewBuffer(doc)
	x.dec.Reset(&x.buf, value.Lenient...)
	if x.dec.PeekKind() != jsontext.KindBeginObject {
		return errNotObject
	}
	if err := x.descend(root, &x.dec); err != nil {
		if errors.Is(err, io.EOF) {
			return errNotObject
		}
		return err
	}
	return nil
}

// extractAny fills the slots from any JSON value. If the JSON is invalid, the slots stay
// empty.
func (x *extractor) extractAny(root *node, raw []byte) {
	clear(x.slots)
	x.left = len(x.slots)
	if x.left == 0 {
		return
	}
	if root.slot != noSlot {
		x.fill(root.slot, raw)
	}
	if root.leaf() || x.left == 0 || len(raw) == 0 || raw[0] != '{' && raw[0] != '[' {
		return
	}
	x.buf = *bytes.NewBuffer(raw)
	x.dec.Reset(&x.buf, value.Lenient...)
	if x.descend(root, &x.dec) != nil {
		clear(x.slots)
	}
}

// each calls visit for every element of the array raw, until visit returns false. It
// returns false if visit did. If raw is not an array, there are no elements. It can
// visit only one array at a time.
func (x *looped) each(raw []byte, visit func(element []byte) bool) bool {
	if len(raw) == 0 || raw[0] != '[' {
		return true
	}
	x.listBuf = *bytes.NewBuffer(raw)
	x.list.Reset(&x.listBuf, value.Lenient...)
	if _, err := x.list.ReadToken(); err != nil {
		return true
	}
	for x.list.PeekKind() != jsontext.KindEndArray {
		v, err := x.list.ReadValue()
		if err != nil {
			return true
		}
		if !visit(v) {
			return false
		}
	}
	return true
}

func (x *extractor) fill(slot int, raw []byte) {
	if x.slots[slot] == nil {
		x.slots[slot] = raw
		x.left--
	}
}

// descend reads the object or array at the decoder's position, as far as the paths below
// n need it. It is recursive, and the depth of the query's paths limits it.
func (x *extractor) descend(n *node, d *jsontext.Decoder) error {
	begin, err := d.ReadToken()
	if err != nil {
		return err
	}
	inObject := begin.Kind() == jsontext.KindBeginObject
	for i := 0; ; i++ {
		if k := d.PeekKind(); k == jsontext.KindEndObject || k == jsontext.KindEndArray {
			_, err := d.ReadToken()
			return err
		}
		var next *node
		if inObject {
			name, err := d.ReadValue()
			if err != nil {
				return err
			}
			next = n.member(value.Unquote(name))
		} else {
			next = n.elements[i]
		}
		if next == nil {
			// ReadValue is faster here than SkipValue, which reads objects and arrays
			// token by token.
			_, err = d.ReadValue()
		} else {
			err = x.visit(next, d)
		}
		if err != nil || x.left == 0 {
			return err
		}
	}
}

// visit reads the value at the decoder's position into the slot of n, and into the slots
// of the nodes below n.
func (x *extractor) visit(n *node, d *jsontext.Decoder) error {
	if n.slot == noSlot {
		if k := d.PeekKind(); k == jsontext.KindBeginObject || k == jsontext.KindBeginArray {
			return x.descend(n, d)
		}
		_, err := d.ReadValue()
		return err
	}
	raw, err := d.ReadValue()
	if err != nil {
		return err
	}
	x.fill(n.slot, raw)
	if n.leaf() || x.left == 0 || raw[0] != '{' && raw[0] != '[' {
		return nil
	}
	// The query reads both the whole value and a part of it, so the value is read a
	// second time.
	return x.descend(n, value.NewDecoder(raw))
}

// at returns the member of the object v that the string index names, or the element of the
// array v with the number index. If there is none, it returns undefined.
func at(v, index value.Value) (found value.Value) {
	switch {
	case v.Kind == value.Object && index.Kind == value.String:
		return value.Lookup(v.Bytes, index.Bytes)
	case v.Kind == value.Array && index.Kind == value.Number:
		n, ok := elementIndex(index)
		if !ok {
			return value.Value{}
		}
		value.EachElement(v.Bytes, func(i int, raw []byte) bool {
			if i < n {
				return true
			}
			found = value.Decode(raw)
			return false
		})
	}
	return found
}

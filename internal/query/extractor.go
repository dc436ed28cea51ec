package query

import (
	"bytes"
	"errors"
	"io"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/changefeed-go/changefeed/internal/query/value"
)

// errNotObject is the error of a document that is not a JSON object.
var errNotObject = errors.New("the document is not a JSON object")

// noSlot marks a node whose own value is not needed.
const noSlot = -1

// node is a step of a path in documents. The tree of nodes holds all paths of a query. So
// one pass over a document finds all of their values and decodes nothing else.
type node struct {
	slot     int // the slot of the value
	members  []edge
	byName   map[string]*node // replaces the search of members if there are many
	elements map[int]*node
}

type edge struct {
	name []byte
	to   *node
}

// manyMembers is the number of members above which a map is faster than a linear search.
const manyMembers = 8

func newNode() *node { return &node{slot: noSlot} }

// at returns the node at path. It creates the node if it does not exist.
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
	if s.name != nil {
		return n.member(s.name)
	}
	return n.elements[s.index]
}

func (n *node) link(s step, to *node) {
	if s.name == nil {
		if n.elements == nil {
			n.elements = map[int]*node{}
		}
		n.elements[s.index] = to
		return
	}
	n.members = append(n.members, edge{s.name, to})
	switch {
	case n.byName != nil:
		n.byName[string(s.name)] = to
	case len(n.members) > manyMembers:
		n.byName = map[string]*node{}
		for _, e := range n.members {
			n.byName[string(e.name)] = e.to
		}
	}
}

func (n *node) member(name []byte) *node {
	if n.byName != nil {
		return n.byName[string(name)]
	}
	for i := range n.members {
		if bytes.Equal(n.members[i].name, name) {
			return n.members[i].to
		}
	}
	return nil
}

// leaf reports whether no value below the node is needed.
func (n *node) leaf() bool { return len(n.members) == 0 && len(n.elements) == 0 }

// extractor fills slots with the values at the nodes of a tree. A slot is a part of the
// document's bytes, or nil if the document does not have the path.
type extractor struct {
	slots [][]byte
	left  int // number of empty slots
	buf   bytes.Buffer
	dec   jsontext.Decoder
	// list reads the array whose elements are visited one by one.
	listBuf bytes.Buffer
	list    jsontext.Decoder
}

// extract fills the slots from a document. It returns errNotObject if doc is not an
// object.
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

// extractAny fills the slots from any JSON value. Invalid JSON has no values.
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

// each calls visit with the elements of an array, until visit returns false. Then each
// returns false too. A value that is not an array has no elements. An extractor visits
// only one array at a time.
func (x *extractor) each(raw []byte, visit func(element []byte) bool) bool {
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

// descend reads the object or array that the decoder is at. It returns early when nothing
// more is needed. The depth is bounded by that of the query.
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
			// Not SkipValue, which reads objects and arrays token by token.
			_, err = d.ReadValue()
		} else {
			err = x.visit(next, d)
		}
		if err != nil || x.left == 0 {
			return err
		}
	}
}

// visit reads the value of a node in the tree.
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
	// Both the value and a part of it are needed. Read the value a second time.
	return x.descend(n, value.NewDecoder(raw))
}

// at returns the member or element of a value that a step leads to.
func at(v value.Value, s step) value.Value {
	switch {
	case v.Kind == value.Object && s.name != nil:
		return value.Lookup(v.Bytes, s.name)
	case v.Kind == value.Array && s.name == nil:
		var found value.Value
		value.EachElement(v.Bytes, func(i int, raw []byte) bool {
			if i < s.index {
				return true
			}
			found = value.Decode(raw)
			return false
		})
		return found
	}
	return value.Value{}
}

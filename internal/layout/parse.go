package layout

import (
	"encoding/json"
	"errors"
	"math"
	"math/bits"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/changefeed-go/changefeed/internal/canonical"
	"github.com/changefeed-go/changefeed/internal/epk"
	"github.com/changefeed-go/changefeed/internal/jsonscan"
	"github.com/changefeed-go/changefeed/storetype"
)

// systemNames are the names of the properties that the store sets. If a caller's document
// has them, the store drops them, as the service does. _lsn is not among them, although a
// feed adds it to documents: like the service, the store keeps a caller's own _lsn.
var systemNames = [...]string{"_rid", "_self", "_etag", "_attachments", "_ts"}

// systemIndex returns the index of name in systemNames, or -1.
func systemIndex(name jsonscan.Text) int {
	if plain, _ := name.Plain(); len(plain) == 0 || plain[0] != '_' {
		return -1
	}
	for i, n := range systemNames {
		if name.Is(n) {
			return i
		}
	}
	return -1
}

// parser parses the text of one document from a caller.
type parser struct {
	jsonscan.Scanner
	Document
	text   []byte
	paths  KeyPaths
	useTTL bool
	hasID  bool
	hasTTL bool
	// cuts has the offsets of the system properties in text, each from the quote of its
	// name to the end of its value. ncuts is their number.
	cuts  [len(systemNames)]struct{ from, to int }
	ncuts int
	// seen has a bit for each key path. The bit is set when the path's first name has
	// occurred.
	seen uint8
}

// ParseDocument checks a body and parses its id, key components and ttl. It drops system
// properties and makes the rest canonical, which is the form that the service stores (see
// package canonical). If useTTL is true, an invalid ttl is a BadTTL error. Otherwise the
// container has no time to live, and an invalid ttl is ignored.
//
// It allocates memory only for the id, for string components, and for a body that has
// system properties or may not be canonical.
func ParseDocument(body []byte, paths KeyPaths, useTTL bool) (Document, error) {
	if len(body) > storetype.MaxDocumentSize {
		return Document{}, &storetype.TooLargeError{What: "document", Size: len(body), Limit: storetype.MaxDocumentSize}
	}
	p := parser{Scanner: *jsonscan.New(body, MaxDepth), text: body, paths: paths, useTTL: useTTL}
	p.keys = len(paths)
	p.AcceptHalves()
	if err := p.parse(); err != nil {
		if syntax := (*jsonscan.SyntaxError)(nil); errors.As(err, &syntax) {
			err = BadRequestBy(syntax, storetype.BadBody, "%s", syntax)
		}
		return Document{}, err
	}
	return p.Document, nil
}

func (p *parser) parse() error {
	p.Space()
	if p.Peek() != '{' {
		err := p.Fail("a document is a JSON object, and an opening brace is expected")
		if json.Valid(p.text) {
			return BadRequestBy(ErrNotObject, storetype.BadBody, "%s", err)
		}
		return err
	}
	from := p.Offset()
	end := from + 1 // the offset after the last member
	seen := uint(0)
	for more, err := p.Object(1); more || err != nil; more, err = p.Next('}') {
		if err != nil {
			return err
		}
		at := p.Offset()
		name, err := p.decodedName()
		if err != nil {
			return err
		}
		if i := systemIndex(name); i >= 0 {
			if seen&(1<<i) != 0 {
				return BadRequest(storetype.BadBody, "%s occurs twice", systemNames[i])
			}
			seen |= 1 << i
			err = p.Value(2)
			p.cuts[p.ncuts].from, p.cuts[p.ncuts].to = at, p.Offset()
			p.ncuts++
		} else {
			err = p.member(name)
		}
		if err != nil {
			return err
		}
		end = p.Offset()
	}
	loose := p.Loose()
	p.Space()
	if p.Offset() < len(p.text) {
		return p.Fail("nothing may follow the document")
	}
	if !p.hasID {
		return BadRequestBy(ErrNoID, storetype.BadID, "the document has no id")
	}
	if err := checkKeySize(p.Components()); err != nil {
		return err
	}
	p.Body = p.text[from:end]
	if p.ncuts == 0 && !loose {
		return nil
	}
	body, err := p.rewritten(from+1, end, loose)
	if err != nil {
		return BadRequestBy(err, storetype.BadBody, "%s", err)
	}
	if len(body) > storetype.MaxDocumentSize {
		return &storetype.TooLargeError{What: "document", Size: len(body), Limit: storetype.MaxDocumentSize}
	}
	p.Body = body
	return nil
}

// rewritten returns the document text between the offsets from and end without the system
// properties. If the text is loose, the result is canonical. It begins with a brace.
func (p *parser) rewritten(from, end int, loose bool) (out []byte, err error) {
	out = append(make([]byte, 0, end-from+1+MaxTailSize), '{')
	keep := func(members []byte) {
		const between = ", \t\r\n"
		for len(members) > 0 && strings.IndexByte(between, members[0]) >= 0 {
			members = members[1:]
		}
		for len(members) > 0 && strings.IndexByte(between, members[len(members)-1]) >= 0 {
			members = members[:len(members)-1]
		}
		if len(members) == 0 {
			return
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		if !loose {
			out = append(out, members...)
		} else if err == nil {
			out, err = canonical.Append(out, members)
		}
	}
	for _, c := range p.cuts[:p.ncuts] {
		keep(p.text[from:c.from])
		from = c.to
	}
	keep(p.text[from:end])
	return out, err
}

// member scans the value of a top-level member that is not a system property. It stores
// the value if it is the id, the ttl, or part of the partition key.
func (p *parser) member(name jsonscan.Text) error {
	at := p.Offset()
	switch {
	case name.Is("id"):
		if p.hasID {
			return BadRequest(storetype.BadBody, "id occurs twice")
		}
		p.hasID = true
		if err := p.parseID(); err != nil {
			return err
		}
		p.Back(at) // id may also be a partition key path, so its value is scanned again
	case name.Is("ttl"):
		if p.hasTTL {
			return BadRequest(storetype.BadBody, "ttl occurs twice")
		}
		p.hasTTL = true
		if err := p.parseTTL(); err != nil {
			return err
		}
		p.Back(at)
	}
	return p.keyMember(name, 1<<len(p.paths)-1, 0, &p.seen)
}

// decodedName scans the name of a member and decodes its escapes. Otherwise a second id
// could be hidden as "\u0069d".
func (p *parser) decodedName() (jsonscan.Text, error) {
	n, err := p.Name()
	return n.Decoded(), err
}

// keyMember scans the value of a member, and stores it if a key path ends there. depth is
// the number of names that lead to the member's object. active has a bit for each key
// path that begins with these names. seen has a bit for each of them whose next name has
// occurred in the object.
func (p *parser) keyMember(name jsonscan.Text, active uint8, depth int, seen *uint8) error {
	var match uint8
	for i, path := range p.paths {
		if active&(1<<i) != 0 && name.Is(path[depth]) {
			match |= 1 << i
		}
	}
	if match == 0 {
		return p.Value(depth + 2)
	}
	if *seen&match != 0 {
		return BadRequest(storetype.BadBody, "%q, a part of the partition key's path, occurs twice", name)
	}
	*seen |= match
	first := bits.TrailingZeros8(match)
	if len(p.paths[first]) == depth+1 {
		return p.component(first)
	}
	if p.Peek() != '{' {
		return p.Value(depth + 2)
	}
	var inner uint8
	for more, err := p.Object(depth + 2); more || err != nil; more, err = p.Next('}') {
		if err != nil {
			return err
		}
		name, err := p.decodedName()
		if err != nil {
			return err
		}
		if err := p.keyMember(name, match, depth+1, &inner); err != nil {
			return err
		}
	}
	return nil
}

// component scans the value at key path i and stores it as component i of the key.
func (p *parser) component(i int) error {
	c := &p.key[i]
	switch p.Peek() {
	case '"':
		t, err := p.Text()
		if err != nil {
			return err
		}
		c.Kind = epk.String
		c.Text = t.String()
	case 't':
		c.Kind = epk.True
		return p.Value(0)
	case 'f':
		c.Kind = epk.False
		return p.Value(0)
	case 'n':
		c.Kind = epk.Null
		return p.Value(0)
	case '{', '[':
		return BadRequest(storetype.BadKey, "the value at /%s is an object or an array", strings.Join(p.paths[i], "/"))
	default:
		at := p.Offset()
		if err := p.Value(0); err != nil { // Value returns an error unless this is a number
			return err
		}
		number := string(p.text[at:p.Offset()])
		f, err := strconv.ParseFloat(number, 64)
		if err != nil {
			return BadRequestBy(&canonical.RangeError{Text: number}, storetype.BadKey, "the number at /%s is beyond the range of a double", strings.Join(p.paths[i], "/"))
		}
		*c = epk.OfNumber(f)
	}
	return nil
}

func (p *parser) parseID() error {
	if p.Peek() != '"' {
		if err := p.Value(2); err != nil {
			return err
		}
		return BadRequest(storetype.BadID, "the id is not a string")
	}
	t, err := p.Text()
	if err != nil {
		return err
	}
	p.ID = t.String()
	return CheckID(p.ID)
}

// CheckID returns a BadID error if id cannot be the id of an item.
func CheckID(id string) error {
	switch {
	case id == "":
		return BadRequest(storetype.BadID, "the id is empty")
	case len(id) > MaxIDSize:
		return BadRequest(storetype.BadID, "the id has %d bytes; at most %d are allowed", len(id), MaxIDSize)
	case strings.ContainsAny(id, `/\?#`):
		return BadRequest(storetype.BadID, `the id %q contains one of / \ ? #`, id)
	case !utf8.ValidString(id):
		return BadRequest(storetype.BadID, "the id %q is not UTF-8", id)
	}
	return nil
}

func (p *parser) parseTTL() error {
	at, c := p.Offset(), p.Peek()
	if err := p.Value(2); err != nil {
		return err
	}
	if c == '-' || jsonscan.IsDigit(c) {
		// ParseFloat, because JSON may write an integer as 1e2 or 100.0.
		f, err := strconv.ParseFloat(string(p.text[at:p.Offset()]), 64)
		if err == nil && f == math.Trunc(f) && (f == TTLNever || f >= 1 && f <= math.MaxInt32) {
			p.TTL = int32(f)
			return nil
		}
	}
	if !p.useTTL {
		return nil
	}
	return BadRequest(storetype.BadTTL, "ttl is a whole number of seconds from 1 to %d, or -1 for never", math.MaxInt32)
}

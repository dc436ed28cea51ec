package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"net/url"
	"strings"
	"sync"
	"unicode/utf8"
)

// EmulatorKey is the key of the local emulators. It is public, so it is only good for
// tests on one's own machine.
const EmulatorKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// Key is a decoded account key.
type Key []byte

// ParseKey decodes an account key.
func ParseKey(s string) (Key, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) == 0 {
		return nil, errors.New("an account key must be base64 and not empty")
	}
	return b, nil
}

// Payload returns the text that a signature of a request covers. It converts verb,
// resourceType and date to lower case. link is one of [Path.Links]. httpDate is the Date
// header, which counts only if date ([HeaderDate]) is empty.
func Payload(verb, resourceType, link, date, httpDate string) string {
	return string(AppendPayload(nil, verb, resourceType, link, date, httpDate))
}

// AppendPayload appends the text of [Payload] to dst.
func AppendPayload(dst []byte, verb, resourceType, link, date, httpDate string) []byte {
	if date != "" {
		httpDate = ""
	}
	dst = append(appendLower(dst, verb), '\n')
	dst = append(appendLower(dst, resourceType), '\n')
	dst = append(append(dst, link...), '\n')
	dst = append(appendLower(dst, date), '\n')
	return append(appendLower(dst, httpDate), '\n')
}

// appendLower appends s in lower case to dst. Unlike strings.ToLower, it needs no memory of
// its own for ASCII.
func appendLower(dst []byte, s string) []byte {
	from := len(dst)
	for i := range len(s) {
		c := s[i]
		if c >= utf8.RuneSelf {
			return append(dst[:from], strings.ToLower(s)...)
		}
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		dst = append(dst, c)
	}
	return dst
}

// Sign returns the signature of a payload.
func (k Key) Sign(payload string) []byte {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte(payload))
	return mac.Sum(nil)
}

// Verifier verifies signatures of one key. It keeps hash states of the key, because deriving
// them anew makes most of the allocations of [Key.Sign]. Reach for it where many signatures
// are verified. It is safe for concurrent use.
type Verifier struct {
	key  Key
	idle sync.Pool // of *verification
}

// verification is memory for verifying one signature.
type verification struct {
	mac hash.Hash
	sum []byte
}

// NewVerifier returns a verifier for a key.
func NewVerifier(k Key) *Verifier { return &Verifier{key: k} }

// Verify reports whether sig is the signature of a payload. The comparison takes constant
// time.
func (v *Verifier) Verify(payload, sig []byte) bool {
	m, _ := v.idle.Get().(*verification)
	if m == nil {
		m = &verification{mac: hmac.New(sha256.New, v.key)}
	}
	defer v.idle.Put(m)
	m.mac.Reset()
	m.mac.Write(payload)
	m.sum = m.mac.Sum(m.sum[:0])
	return hmac.Equal(m.sum, sig)
}

// Authorization returns the value of the Authorization header for a signature.
func Authorization(sig []byte) string {
	return url.QueryEscape("type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(sig))
}

// Token is a parsed Authorization header.
type Token struct {
	// Type is "master", "resource" or "aad". Version is "1.0" or "1".
	Type, Version string
	// Signature is base64 for a master key and a JWT for aad.
	Signature string
}

// maxToken is the largest accepted size of an Authorization header, in bytes. Tokens of
// Entra ID are the largest ones.
const maxToken = 16 << 10

// ParseAuthorization parses an Authorization header. SDKs escape it, except that some
// send the aad form unescaped.
func ParseAuthorization(header string) (Token, error) {
	if header == "" {
		return Token{}, errors.New("it is missing")
	}
	if len(header) > maxToken {
		return Token{}, fmt.Errorf("it is longer than %d bytes", maxToken)
	}
	text := header
	if !strings.Contains(header, "&") {
		// PathUnescape keeps a plus, which belongs to the base64.
		var err error
		if text, err = url.PathUnescape(header); err != nil {
			return Token{}, errors.New("it is not properly escaped")
		}
	}
	var t Token
	for field := range strings.SplitSeq(text, "&") {
		name, value, _ := strings.Cut(field, "=")
		switch strings.ToLower(name) {
		case "type":
			t.Type = strings.ToLower(value)
		case "ver":
			t.Version = value
		case "sig":
			t.Signature = value
		}
	}
	if t.Type == "" || t.Version == "" || t.Signature == "" {
		return Token{}, errors.New("it is not of the form type=TYPE&ver=VERSION&sig=SIGNATURE")
	}
	return t, nil
}

package wire

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"strings"
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
	if date != "" {
		httpDate = ""
	}
	return strings.ToLower(verb) + "\n" + strings.ToLower(resourceType) + "\n" + link + "\n" +
		strings.ToLower(date) + "\n" + strings.ToLower(httpDate) + "\n"
}

// Sign returns the signature of a payload.
func (k Key) Sign(payload string) []byte {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte(payload))
	return mac.Sum(nil)
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

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

// EmulatorKey is the key of the local emulators: public and well known, so good
// for one's own machine and nothing else.
const EmulatorKey = "C2y6yDjf5/R+ob0N8A7Cgv30VRDJIWEHLM+4QDU5DE2nQ9nDuVTqobD4b8mGGyPMbIZnqyMsEcaGQy67XIw/Jw=="

// Key is a decoded account key.
type Key []byte

// ParseKey decodes an account key.
func ParseKey(s string) (Key, error) {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil || len(b) == 0 {
		return nil, errors.New("an account key is base64, and not empty")
	}
	return b, nil
}

// Payload is the text that a signature of a request covers. verb, resourceType
// and date are written in lower case; link is taken as it is: what that has to be, is
// said at [Path.Links]. httpDate is the Date header, and counts only where date
// ([HeaderDate]) is empty.
func Payload(verb, resourceType, link, date, httpDate string) string {
	if date != "" {
		httpDate = ""
	}
	return strings.ToLower(verb) + "\n" + strings.ToLower(resourceType) + "\n" + link + "\n" +
		strings.ToLower(date) + "\n" + strings.ToLower(httpDate) + "\n"
}

// Sign signs a payload.
func (k Key) Sign(payload string) []byte {
	mac := hmac.New(sha256.New, k)
	mac.Write([]byte(payload))
	return mac.Sum(nil)
}

// Authorization is the value of the Authorization header for a signature.
func Authorization(sig []byte) string {
	return url.QueryEscape("type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(sig))
}

// Token is an Authorization header, taken apart.
type Token struct {
	// Type is "master", "resource" or "aad", in lower case; Version "1.0" or "1".
	Type, Version string
	// Signature is what proves it: base64 for a master key, a JWT for aad.
	Signature string
}

// maxToken bounds an Authorization header: the largest is one of Entra ID.
const maxToken = 16 << 10

// ParseAuthorization takes an Authorization header apart. SDKs escape it as a
// whole; some send the aad form as it is.
func ParseAuthorization(header string) (Token, error) {
	if header == "" {
		return Token{}, errors.New("there is none")
	}
	if len(header) > maxToken {
		return Token{}, fmt.Errorf("it is longer than %d bytes", maxToken)
	}
	text := header
	if !strings.Contains(header, "&") {
		// As a path: a plus is a plus, and belongs to the base64.
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
		return Token{}, errors.New("it has not the form type=TYPE&ver=VERSION&sig=SIGNATURE")
	}
	return t, nil
}

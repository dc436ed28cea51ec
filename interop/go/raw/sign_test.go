package raw

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// authorization returns the Authorization header of a request, as the REST API's page on
// access control specifies. xMsDate and date are the values of the headers x-ms-date and
// Date. A request has only one of them.
func authorization(key, verb, resourceType, resourceLink, xMsDate, date string) string {
	secret, err := base64.StdEncoding.DecodeString(key)
	if err != nil {
		secret = []byte(key) // not base64: sign the request anyway, so that the server can refuse it
	}
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(strings.ToLower(verb) + "\n" + strings.ToLower(resourceType) + "\n" + resourceLink + "\n" +
		strings.ToLower(xMsDate) + "\n" + strings.ToLower(date) + "\n"))
	return url.QueryEscape("type=master&ver=1.0&sig=" + base64.StdEncoding.EncodeToString(mac.Sum(nil)))
}

// resource returns the resource type and the link with which a request for a path is
// signed. A path with an odd number of segments is a feed. It is signed
// with the link of its parent. Names in the link have no percent escapes. The link of an offer is its rid in
// lower case.
func resource(path string) (resourceType, link string) {
	trimmed := strings.Trim(path, "/")
	if trimmed == "" {
		return "", ""
	}
	segments := strings.Split(trimmed, "/")
	for i, s := range segments {
		if plain, err := url.PathUnescape(s); err == nil {
			segments[i] = plain
		}
	}
	last := len(segments) - 1
	switch {
	case len(segments)%2 == 1:
		return segments[last], strings.Join(segments[:last], "/")
	case segments[0] == "offers":
		return "offers", strings.ToLower(segments[1])
	}
	return segments[last-1], strings.Join(segments, "/")
}

// sign signs a request for the path of its URL at the given time. It sends the time in
// x-ms-date.
func sign(r *http.Request, key string, at time.Time) {
	resourceType, link := resource(r.URL.EscapedPath())
	date := at.UTC().Format(http.TimeFormat)
	r.Header.Set("X-Ms-Date", date)
	r.Header.Set("Authorization", authorization(key, r.Method, resourceType, link, date, ""))
}

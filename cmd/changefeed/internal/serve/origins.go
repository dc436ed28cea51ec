package serve

import (
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// A browser lets a web page read answers of another origin only if these say so (CORS). As
// with the service's accounts, a page of an origin that was not allowed gets nothing.

// anyOrigin allows the pages of all origins.
const anyOrigin = "*"

// preflightAge is how long a browser may remember the answer to a preflight, in seconds.
// Chromium remembers none for longer than two hours.
const preflightAge = "7200"

// validateOrigins returns an error unless each of Config.Origins has the form in which
// browsers name an origin.
func (c Config) validateOrigins() error {
	for _, origin := range c.Origins {
		u, err := url.Parse(origin)
		if origin != anyOrigin && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Contains(u.Host, "*") || u.Scheme+"://"+u.Host != origin || origin != strings.ToLower(origin)) {
			return refuse("--allow-origin is %q: it must be http or https, a host in lower case and perhaps a port, without a path, for instance http://localhost:3000, or * for all; browsers name one host, so a pattern cannot match", origin)
		}
	}
	return nil
}

// allowOrigins answers the preflights of pages of the given origins, and lets these pages
// read the answers of next. A preflight has no signature. With other origins, a request is
// passed to next as it is.
func allowOrigins(origins []string, next http.Handler) http.Handler {
	if len(origins) == 0 {
		return next
	}
	every := slices.Contains(origins, anyOrigin)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h, origin := w.Header(), r.Header.Get("Origin")
		if !every {
			h.Add("Vary", "Origin") // otherwise a cache could return an answer for one origin to a page of another
		}
		if origin == "" || !every && !slices.Contains(origins, origin) {
			next.ServeHTTP(w, r)
			return
		}
		if every {
			origin = anyOrigin
		}
		h.Set("Access-Control-Allow-Origin", origin)
		if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
			// The SDK needs the continuation, the charge, the session token and more.
			h.Set("Access-Control-Expose-Headers", "*")
			next.ServeHTTP(w, r)
			return
		}
		h.Set("Access-Control-Allow-Methods", "GET, HEAD, POST, PUT, PATCH, DELETE")
		// A signature covers no other header, so every header may come from the page.
		if asked := r.Header.Get("Access-Control-Request-Headers"); asked != "" {
			h.Set("Access-Control-Allow-Headers", asked)
		}
		if r.Header.Get("Access-Control-Request-Private-Network") == "true" { // the page is on the internet
			h.Set("Access-Control-Allow-Private-Network", "true")
		}
		h.Set("Access-Control-Max-Age", preflightAge)
		w.WriteHeader(http.StatusNoContent)
	})
}

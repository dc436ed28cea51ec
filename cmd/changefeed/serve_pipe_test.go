package main

import (
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
)

// A client that disconnects while it receives an answer breaks a connection of the
// server. The server must continue. (A program that handles SIGPIPE also receives that
// signal for connections.)
func TestServeOutlivesClientsThatGoAwayInTheMiddleOfAnAnswer(t *testing.T) {
	endpoint, end := served(t, "--tls", "off", "--memory")
	at, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	request := "GET /dbs HTTP/1.1\r\nHost: " + at.Host + "\r\n\r\n"
	for range 200 {
		c, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", at.Host)
		if err != nil {
			t.Fatalf("the server is gone: %v", err)
		}
		if _, err := c.Write([]byte(strings.Repeat(request, 40))); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, endpoint, nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatalf("the server is gone: %v", err)
	}
	if err := answer.Body.Close(); err != nil {
		t.Error(err)
	}
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("it answers %s", answer.Status)
	}
	if code, errOut := end(syscall.SIGTERM); code != exitOK {
		t.Errorf("status %d, %s", code, errOut)
	}
}

package main

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
)

func TestRecordingShowsEveryLineAtItsTime(t *testing.T) {
	var out bytes.Buffer
	if err := record(strings.NewReader("00:00.0  host-1 joins\n01:02.5  a < b & \"c\"\n\n  written  3\n"), &out, "demo"); err != nil {
		t.Fatal(err)
	}
	picture := out.String()
	for _, want := range []string{
		`animation-delay:0.0s" x="16" y="59"><tspan class="time">00:00.0</tspan>  host-1 joins</text>`,
		`animation-delay:62.5s" x="16" y="78"><tspan class="time">01:02.5</tspan>  a &lt; b &amp; &#34;c&#34;</text>`,
		`animation-delay:62.5s" x="16" y="116">  written  3</text>`,
	} {
		if !strings.Contains(picture, want) {
			t.Errorf("the picture lacks %s:\n%s", want, picture)
		}
	}
	for decoder := xml.NewDecoder(&out); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecordingOfNothingIsRefused(t *testing.T) {
	if err := record(strings.NewReader(""), io.Discard, ""); err == nil {
		t.Error("a picture of nothing was drawn")
	}
}

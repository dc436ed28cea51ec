package lease

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/changefeed-go/changefeed/feed"
)

// A position in the dialect JavaLatestVersion is the Base64 text of
//
//	{"V":1,"Rid":"/dbs/db/colls/c","Mode":"INCREMENTAL","StartFrom":{"Type":"BEGINNING"},
//	 "Continuation":{"V":1,"Rid":"/dbs/db/colls/c",
//	  "Continuation":[{"token":"\"11\"","range":{"min":"","max":"FF"}}],
//	  "Range":{"min":"","max":"FF","isMinInclusive":true,"isMaxInclusive":false}}}
//
// The codec changes only token and the ranges. It writes all other members back
// unchanged.

// state is a parsed position of this form.
type state struct {
	text     string // the JSON text of the state
	mode     feed.Mode
	position feed.Continuation
}

// isWrapped reports whether a position is in the form of the dialect JavaLatestVersion. A
// position in the feed's own form begins with a quote, or is not the Base64 text of a
// JSON object.
func isWrapped(position string) bool {
	if position == "" || position[0] == '"' {
		return false
	}
	text, err := fromBase64(position)
	return err == nil && bytes.HasPrefix(bytes.TrimLeft(text, " \t\r\n"), []byte("{")) && json.Valid(text)
}

// fromBase64 decodes Base64 in the basic alphabet or in that for URLs, with or without
// padding. Java hosts write all four forms.
func fromBase64(text string) ([]byte, error) {
	text = strings.TrimRight(text, "=")
	if strings.ContainsAny(text, "+/") {
		return base64.RawStdEncoding.DecodeString(text)
	}
	return base64.RawURLEncoding.DecodeString(text)
}

// wrap encodes the JSON text of a state in Base64. Java decodes each position twice: once
// with the alphabet for URLs, once with the basic one. So the result must contain none of
// the characters in which the alphabets differ. In ASCII text only the characters >, ?, ~
// and DEL can lead to them, and JSON can escape these four.
func wrap(text string) string {
	if text == "" {
		return ""
	}
	return base64.URLEncoding.EncodeToString(plain(text))
}

// plain escapes >, ?, ~, DEL and all characters that are not ASCII in a JSON text. They
// occur only in strings, where JSON allows escapes.
func plain(text string) []byte {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		switch {
		case strings.ContainsRune(">?~\x7f", r), r >= utf8.RuneSelf && r <= math.MaxUint16:
			out = fmt.Appendf(out, `\u%04x`, r)
		case r > math.MaxUint16:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = append(out, byte(r))
		}
	}
	return out
}

var errStateForm = errors.New("unknown form")

// unwrap decodes and parses a position of this form.
func unwrap(position string) (state, error) {
	text, err := fromBase64(position)
	if err != nil {
		return state{}, err
	}
	return readState(text)
}

func readState(text []byte) (state, error) {
	s := state{text: string(text)}
	err := scan(text, func(m member) (err error) {
		switch string(m.key) {
		case "V":
			err = m.stateVersion()
		case "Mode":
			s.mode, err = m.stateMode()
		case "Continuation":
			s.position, err = m.statePosition()
		}
		if err != nil {
			return fmt.Errorf("%s: %w", m.key, err)
		}
		return nil
	})
	return s, err
}

func (m member) stateVersion() error {
	if string(m.value) != "1" {
		return fmt.Errorf("%s: %w", m.value, errStateForm)
	}
	return nil
}

func (m member) stateMode() (feed.Mode, error) {
	switch text, err := m.text(); {
	case err != nil:
		return 0, err
	case text == "INCREMENTAL":
		return feed.LatestVersion, nil
	case text == "FULL_FIDELITY":
		return feed.AllVersionsAndDeletes, nil
	default:
		return 0, fmt.Errorf("unknown value %q", text)
	}
}

// statePosition returns the feed's position in the inner Continuation. It returns an
// error unless that contains exactly one position, as a processor's state does.
func (m member) statePosition() (position feed.Continuation, err error) {
	if m.null() {
		return "", nil
	}
	err = scan(m.value, func(inner member) error {
		switch string(inner.key) {
		case "V":
			return inner.stateVersion()
		case "Continuation":
			var all []struct {
				Token *string `json:"token"`
			}
			if err := json.Unmarshal(inner.value, &all); err != nil {
				return err
			}
			if len(all) != 1 {
				return fmt.Errorf("%d positions instead of one: %w", len(all), errStateForm)
			}
			if all[0].Token != nil {
				position = feed.Continuation(*all[0].Token)
			}
		}
		return nil
	})
	return position, err
}

// stateStart returns the start of the lease's feed, which the member StartFrom of the
// state contains. It returns false if there is none or its type is unknown.
func stateStart(text string) (start feed.Start, ok bool) {
	_ = scan([]byte(text), func(m member) error { // the text was checked when it was read
		if string(m.key) != "StartFrom" {
			return nil
		}
		var from struct {
			Type          string `json:"Type"`
			PointInTimeMs int64  `json:"PointInTimeMs"`
		}
		if json.Unmarshal(m.value, &from) != nil {
			return nil
		}
		switch from.Type {
		case "NOW":
			start, ok = feed.Now(), true
		case "BEGINNING":
			start, ok = feed.Beginning(), true
		case "POINT_IN_TIME":
			// The stored time excludes its own second, because the service treats a time
			// as exclusive. The start is one second later.
			start, ok = feed.At(time.UnixMilli(from.PointInTimeMs).Add(time.Second)), true
		}
		return nil
	})
	return start, ok
}

// startFrom returns the JSON text of the member StartFrom for the start s.
func startFrom(s feed.Start) string {
	w := writer{}
	switch s.Kind() {
	case feed.StartBeginning:
		w.text("Type", "BEGINNING")
	case feed.StartTime:
		// Java requires a number of milliseconds that does not fit into an int. Smaller
		// ones are times in January 1970, and no change is that old.
		ms := s.Time().Add(-time.Second).UnixMilli()
		if ms <= math.MaxInt32 {
			w.text("Type", "BEGINNING")
			break
		}
		w.text("Type", "POINT_IN_TIME")
		w.raw("PointInTimeMs", strconv.FormatInt(ms, 10))
	case feed.StartNow, feed.StartContinuation:
		w.text("Type", "NOW")
	}
	return string(w.end())
}

// rewriteState returns the state text with its position and range replaced. All other
// members stay unchanged.
func rewriteState(text string, position feed.Continuation, r feed.Range) string {
	was, err := readState([]byte(text))
	of, rid := stateRange(text)
	if err == nil && was.position == position && of == r {
		return text
	}
	w, inner := writer{}, []byte(`{"V":1}`)
	_ = scan([]byte(text), func(m member) error { // the text was checked when it was read
		switch string(m.key) {
		case "Continuation":
			if !m.null() {
				inner = m.value
			}
		case "Range", "PK", "PKRangeId":
			// A state without a position has its range here. The result has a position,
			// so its range is in Continuation.
		default:
			w.keep(m)
		}
		return nil
	})
	w.raw("Continuation", rewriteInner(inner, rid, position, r))
	return string(w.end())
}

// rewriteInner returns the inner Continuation with its position and range replaced. It
// omits the range's inclusive flags, as Java does after the first position.
func rewriteInner(text []byte, rid string, position feed.Continuation, r feed.Range) string {
	w := writer{}
	linked := false
	_ = scan(text, func(m member) error {
		switch string(m.key) {
		case "Continuation", "Range":
			return nil
		case "Rid":
			linked = true
		}
		w.keep(m)
		return nil
	})
	if !linked {
		w.text("Rid", rid)
	}
	w.raw("Continuation", positions(position, r))
	w.raw("Range", bounds(r))
	return string(w.end())
}

// stateRange returns the range that a state covers, and the link of the container in it
// ("Rid").
func stateRange(text string) (r feed.Range, rid string) {
	var s struct {
		RID          string `json:"Rid"`
		Continuation struct{ Range feed.Range }
	}
	if json.Unmarshal([]byte(text), &s) == nil {
		r = s.Continuation.Range
	}
	return r, s.RID
}

// positions returns the member Continuation of the inner Continuation: a JSON list with
// the position c of range r. If c is empty, its token is null.
func positions(c feed.Continuation, r feed.Range) string {
	one := writer{}
	one.textOrNull("token", string(c))
	one.raw("range", bounds(r))
	return "[" + string(one.end()) + "]"
}

func bounds(r feed.Range) string {
	w := writer{}
	w.text("min", r.Min)
	w.text("max", r.Max)
	return string(w.end())
}

// fullRange returns the JSON text of r with the inclusive flags, which Java requires with
// a first position.
func fullRange(r feed.Range) string {
	w := writer{buf: []byte(strings.TrimSuffix(bounds(r), "}"))}
	w.raw("isMinInclusive", "true")
	w.raw("isMaxInclusive", "false")
	return string(w.end())
}

package server

import (
	"fmt"
	"hash/crc32"
	"strings"
)

// Continuations of pages are sealed: parts with "~" between them, and behind them their checksum. A position is bytes of any
// kind, so without it one that was cut off, or that another server or container gave out, would be taken for a place, and
// a client would read less than there is and not be told.

// sealDigits is the length of a checksum: CRC-32C in hex. It finds mistakes; it keeps nobody from making one up.
const sealDigits = 8

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// seal writes a continuation. No part has a "~" in it.
func seal(parts ...string) string {
	text := strings.Join(parts, "~")
	return text + "~" + checksum(text)
}

// unseal returns the parts of a continuation; nil: it isn't one that seal wrote.
func unseal(token string) []string {
	at := len(token) - sealDigits - 1
	if at < 0 || token[at] != '~' || checksum(token[:at]) != token[at+1:] {
		return nil
	}
	return strings.Split(token[:at], "~")
}

func checksum(text string) string {
	return fmt.Sprintf("%0*x", sealDigits, crc32.Checksum([]byte(text), castagnoli))
}

//go:build sonic

package main

import "github.com/changefeed-go/changefeed/sonicjson"

// This module does not require sonicjson, so interop/compare builds the program with this
// tag and a go.mod of its own.
func init() { decoders["sonic"] = sonicjson.Unmarshal }

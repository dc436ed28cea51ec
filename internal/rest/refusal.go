package rest

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// Line returns a refusal in one line: its status, its message, and the activity id by which
// support finds it. The text of azcore's own error is the whole answer, over many lines.
func Line(refused *azcore.ResponseError) string {
	status, message, activity := strconv.Itoa(refused.StatusCode), refused.ErrorCode, ""
	if r := refused.RawResponse; r != nil {
		if sub := r.Header.Get(wire.HeaderSubStatus); sub != "" && sub != "0" {
			status += "/" + sub
		}
		if id := r.Header.Get(wire.HeaderActivityID); id != "" {
			activity = " (activity " + id + ")"
		}
		if body, err := runtime.Payload(r); err == nil && len(body) > 0 {
			message = messageOf(body)
		}
	}
	if message == "" {
		message = "no message"
	}
	return fmt.Sprintf("the account answers %s: %s%s", status, message, activity)
}

// maxMessage limits the length of a message, because some proxies return a page of HTML.
const maxMessage = 500

// messageOf returns the first line of the message in the body of a refusal.
func messageOf(body []byte) string {
	var refusal wire.ErrorBody
	text := string(body)
	if json.Unmarshal(body, &refusal) == nil && refusal.Message != "" {
		text = refusal.Message
	}
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	text = strings.TrimSpace(text)
	return text[:min(len(text), maxMessage)]
}

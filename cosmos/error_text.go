package cosmos

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"

	"github.com/changefeed-go/changefeed/internal/wire"
)

// answerError is an error in one line. The texts of azcore's errors are whole answers over many
// lines, which hide the lines around them in a log. errors.As finds azcore's error in it.
type answerError struct {
	err  error
	line string
}

func (e *answerError) Error() string { return e.line }

// Unwrap returns the error with azcore's text.
func (e *answerError) Unwrap() error { return e.err }

// Details returns azcore's text. The processor logs it at level debug.
func (e *answerError) Details() string { return e.err.Error() }

// inLine returns err with a text of one line; err itself if it has one.
func inLine(err error) error {
	if err == nil {
		return nil
	}
	text := err.Error()
	var refused *azcore.ResponseError
	if errors.As(err, &refused) {
		text = strings.ReplaceAll(text, refused.Error(), answerLine(refused))
	} else if !strings.Contains(text, "\n") {
		return err
	}
	return &answerError{err, strings.Join(strings.Fields(text), " ")}
}

// answerLine returns the status of an answer, its message, and the activity by which support
// finds it.
func answerLine(refused *azcore.ResponseError) string {
	status, message, activity := strconv.Itoa(refused.StatusCode), refused.ErrorCode, ""
	if r := refused.RawResponse; r != nil {
		if sub := r.Header.Get(wire.HeaderSubStatus); sub != "" && sub != "0" {
			status += "/" + sub
		}
		if id := r.Header.Get(wire.HeaderActivityID); id != "" {
			activity = " (activity " + id + ")"
		}
		if body, err := runtime.Payload(r); err == nil && len(body) > 0 {
			message = answerMessage(body)
		}
	}
	if message == "" {
		message = "no message"
	}
	return fmt.Sprintf("the account answers %s: %s%s", status, message, activity)
}

// maxMessage bounds a message: some proxies answer with a page of HTML.
const maxMessage = 500

// answerMessage returns the first line of the message in the body of a refusal.
func answerMessage(body []byte) string {
	var refusal wire.ErrorBody
	text := string(body)
	if json.Unmarshal(body, &refusal) == nil && refusal.Message != "" {
		text = refusal.Message
	}
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	text = strings.TrimSpace(text)
	return text[:min(len(text), maxMessage)]
}

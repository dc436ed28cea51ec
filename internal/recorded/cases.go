package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"strings"
)

// casesFile has one recorded request in each line, with the facts of its answer. README.md
// describes the form.
//
//go:embed cases.jsonl
var casesFile []byte

// recorded is a recorded request and the facts of its answer.
type recorded struct {
	N       int               `json:"n"`
	Name    string            `json:"name"`
	Method  string            `json:"method"`
	Path    string            `json:"path"`
	Headers map[string]string `json:"headers"`
	Body    *string           `json:"body"`
	Gen     generated         `json:"gen"`
	// Wait is the time to wait before the request, in seconds.
	Wait    int `json:"wait"`
	Special struct {
		// ContinuationOf is the number of the case whose continuation is sent.
		ContinuationOf int `json:"continuation_of"`
		// Burst is the number of times that the request is sent at once. Of the recorded
		// answers, Served had the status 200 and Throttled 429.
		Burst, Served, Throttled int
	} `json:"special"`
	// After is sent if the answer has another status than the recorded one, because what
	// is stored must be right for the cases that follow.
	After *struct {
		Method  string            `json:"method"`
		Path    string            `json:"path"`
		Headers map[string]string `json:"headers"`
		Body    *string           `json:"body"`
	} `json:"after"`
	// Want is nil if the request is sent for its effect only.
	Want *facts `json:"want"`
}

// generated describes a body that is not stored in full.
type generated struct {
	// Seed has a partition's number, the first document's number and the count of
	// documents, which a batch creates.
	Seed []int `json:"seed"`
	// Fill has a text, a character, the number of times that it is repeated, and a text.
	Fill []json.RawMessage `json:"fill"`
}

// facts are what is known of a recorded answer. A value beginning with "re:" is a regular
// expression, and names such as "<rid>" are forms, see compare.go.
type facts struct {
	Status    int               `json:"status"`
	SubStatus *string           `json:"substatus"`
	Headers   []string          `json:"headers"`
	Values    map[string]string `json:"values"`
	Charge    *float64          `json:"charge"`
	// Code and Text are the members of an error, the latter without its tail. Tail is the
	// form of the tail.
	Code, Text, Tail *string
	// Body is the JSON of the body, if all of it is known, and Page what is known of a list.
	Body         *string         `json:"body"`
	Page         *page           `json:"page"`
	Plan         json.RawMessage `json:"plan"`
	Continuation *string         `json:"continuation"`
}

type page struct {
	Count       int      `json:"count"`
	First, Last *string  // the ids of the first and last row
	Members     []string `json:"members"`
	EachCharge  *string  `json:"eachCharge"`
}

// loadCases returns the recorded cases in the order in which they must be sent.
func loadCases() ([]recorded, error) {
	var all []recorded
	for n, line := range bytes.Split(bytes.TrimSpace(casesFile), []byte("\n")) {
		var c recorded
		if err := json.Unmarshal(line, &c); err != nil {
			return nil, fmt.Errorf("line %d of cases.jsonl: %w", n+1, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// body returns the body of the request. ok is false if it has none.
func (c *recorded) body() (text string, ok bool, err error) {
	switch {
	case len(c.Gen.Seed) == 3:
		partition, first, count := c.Gen.Seed[0], c.Gen.Seed[1], c.Gen.Seed[2]
		var b strings.Builder
		for i := first; i < first+count; i++ {
			fmt.Fprintf(&b, `,{"operationType":"Create","resourceBody":{"id":"rp%d-%d","pk":"p%d","n":%d,"grp":%d,"txt":"row %d"}}`, partition, i, partition, i, i%7, i)
		}
		return "[" + b.String()[1:] + "]", true, nil
	case len(c.Gen.Fill) == 4:
		var head, fill, tail string
		var n int
		for i, to := range []any{&head, &fill, &n, &tail} {
			if err := json.Unmarshal(c.Gen.Fill[i], to); err != nil {
				return "", false, fmt.Errorf("case %d: %w", c.N, err)
			}
		}
		return head + strings.Repeat(fill, n) + tail, true, nil
	case c.Body == nil:
		return "", false, nil
	}
	return *c.Body, true, nil
}

package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// The classes of facts.
const (
	classStatus       = "status"
	classSubStatus    = "substatus"
	classText         = "text"
	classTail         = "tail"
	classHeaders      = "headers" // headers that SDKs or applications read
	classOther        = "other"   // other headers
	classValues       = "values"  // values of headers
	classBody         = "body"
	classOrder        = "order"
	classNumbers      = "numbers"
	classCharge       = "charge"
	classContinuation = "continuation"
	classPlan         = "plan"
)

// difference is a fact that an answer does not share with the recorded one.
type difference struct {
	class, at  string
	want, have any
}

func (d difference) String() string {
	return fmt.Sprintf("%s %s: %.400s, recorded: %.400s", d.class, d.at, text(d.have), text(d.want))
}

func text(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	return format(v)
}

// answer is a server's answer, read in full.
type answer struct {
	status int
	header http.Header
	body   []byte
}

// get returns a header's value. ok is false if the answer lacks it.
func (a *answer) get(name string) (value string, ok bool) {
	all := a.header.Values(name)
	if len(all) == 0 {
		return "", false
	}
	return all[0], true
}

// ofReplica has the headers that tell only of the replica, the transport or the account.
var ofReplica = []string{
	"strict-transport-security", "x-ms-xp-role", "x-ms-transport-request-id", "x-ms-last-state-change-utc", "x-ms-number-of-read-regions",
	"x-ms-cosmos-internal-partition-id", "x-ms-cosmos-physical-partition-id", "x-ms-quorum-acked-lsn", "x-ms-cosmos-quorum-acked-llsn",
	"x-ms-current-write-quorum", "x-ms-current-replica-set-size", "server", "connection", "keep-alive", "transfer-encoding", "vary",
	"x-ms-cosmos-global-nregion-committed-glsn",
}

// readByClients has the headers that SDKs or applications read.
var readByClients = []string{
	"content-type", "etag", "lsn", "x-ms-item-lsn", "x-ms-session-token", "x-ms-request-charge", "x-ms-activity-id", "x-ms-item-count",
	"x-ms-retry-after-ms", "x-ms-documentdb-partitionkeyrangeid", "x-ms-resource-quota", "x-ms-resource-usage", "x-ms-documentdb-query-metrics",
	"x-ms-serviceversion", "x-ms-gatewayversion", "date",
}

// forms are values that change with every run, and so are compared by their form.
var forms = map[string]struct {
	pattern *regexp.Regexp
	number  bool
}{
	"<rid>":      {regexp.MustCompile(`^[A-Za-z0-9+\-]{4,}={0,2}$`), false},
	"<self>":     {regexp.MustCompile(`^(dbs|offers)/[A-Za-z0-9+\-=]+/([a-z]+/[A-Za-z0-9+\-=]+/)*$`), false},
	"<etag>":     {regexp.MustCompile(`^"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"$`), false},
	"<ts>":       {regexp.MustCompile(`^\d{10}$`), true},
	"<lsn>":      {regexp.MustCompile(`^\d+$`), true},
	"<n>":        {regexp.MustCompile(`^\d+$`), true},
	"<account>":  {regexp.MustCompile(`^.+$`), false},
	"<region>":   {regexp.MustCompile(`^.+$`), false},
	"<endpoint>": {regexp.MustCompile(`^https?://.+/$`), false},
	"<offer>":    {regexp.MustCompile(`^[A-Za-z0-9+\-]{4}$`), false},
}

// comparison collects the differences between an answer and the facts of a recorded one.
type comparison struct {
	want  *facts
	have  *answer
	found []difference
}

func (c *comparison) differs(class, at string, want, have any) {
	c.found = append(c.found, difference{class, at, want, have})
}

// compare returns the differences between an answer and the recorded facts.
func compare(want *facts, have *answer) []difference {
	c := &comparison{want: want, have: have}
	if have.status != want.Status {
		c.differs(classStatus, "", strconv.Itoa(want.Status), fmt.Sprintf("%d %.200s", have.status, have.body))
	}
	c.optional(classSubStatus, "", want.SubStatus, "x-ms-substatus")
	c.headers()
	c.continuation()
	var body any = ""
	if len(have.body) > 0 {
		var err error
		if body, err = parse(have.body); err != nil {
			c.differs(classBody, "", "JSON", fmt.Sprintf("%.200s", have.body))
			return c.found
		}
	}
	c.error(body)
	c.plan(body)
	c.page(body)
	c.whole(body)
	return c.found
}

// optional compares a header that may be missing.
func (c *comparison) optional(class, at string, want *string, name string) {
	have, ok := c.have.get(name)
	if ok != (want != nil) || ok && have != *want {
		missing := "(absent)"
		if want == nil {
			want = &missing
		}
		if !ok {
			have = missing
		}
		c.differs(class, at, *want, have)
	}
}

func (c *comparison) headers() {
	separate := []string{"x-ms-substatus", "x-ms-continuation"} // compared elsewhere
	var have []string
	for name := range c.have.header {
		name = strings.ToLower(name)
		if !slices.Contains(ofReplica, name) && !slices.Contains(separate, name) && (name != "content-length" || slices.Contains(c.want.Headers, name)) {
			have = append(have, name)
		}
	}
	slices.Sort(have)
	class := func(name string) string {
		if slices.Contains(readByClients, name) {
			return classHeaders
		}
		return classOther
	}
	for _, name := range c.want.Headers {
		if !slices.Contains(have, name) && !slices.Contains(ofReplica, name) && !slices.Contains(separate, name) {
			c.differs(class(name), "missing "+name, c.want.Values[name], "(absent)")
		}
	}
	for _, name := range have {
		if !slices.Contains(c.want.Headers, name) {
			value, _ := c.have.get(name)
			c.differs(class(name), "extra "+name, "(absent)", value)
		}
	}
	for name, want := range c.want.Values {
		have, ok := c.have.get(name)
		if ok && !slices.Contains(ofReplica, name) && !matches(want, have) {
			c.differs(classValues, name, want, have)
		}
	}
	if charge, ok := c.have.get("x-ms-request-charge"); ok && c.want.Charge != nil {
		if n, err := strconv.ParseFloat(charge, 64); err != nil || n != *c.want.Charge {
			c.differs(classCharge, "", strconv.FormatFloat(*c.want.Charge, 'g', -1, 64), charge)
		}
	}
}

// matches reports whether a header's value has the recorded value or form.
func matches(want, have string) bool {
	if pattern, ok := strings.CutPrefix(want, "re:"); ok {
		return regexp.MustCompile("^(?:" + pattern + ")").MatchString(have)
	}
	if names, ok := strings.CutPrefix(want, "metrics:"); ok {
		var got []string
		for _, part := range strings.Split(have, ";") {
			name, _, _ := strings.Cut(part, "=")
			got = append(got, name)
		}
		return slices.Equal(got, strings.Split(names, ";"))
	}
	return want == have
}

var ridToken = regexp.MustCompile(`^-RID:~[^#]+#RT:\d+#TRC:\d+#ISV:2#IEO:\d+#QCF:\d+$`)

// continuation compares the form of the continuation: an object or an array of one, with a
// token and a range.
func (c *comparison) continuation() {
	want, have := "(none)", "(none)"
	if c.want.Continuation != nil {
		want = *c.want.Continuation
	}
	if token, ok := c.have.get("x-ms-continuation"); ok {
		have = "other: " + token
		type part struct {
			Token string
			Range struct{ Min, Max string }
		}
		var one part
		var list []part
		if json.Unmarshal([]byte(token), &one) == nil {
			list = append(list, one)
		} else if json.Unmarshal([]byte(token), &list) != nil {
			list = nil
		}
		if len(list) == 1 && ridToken.MatchString(list[0].Token) && list[0].Range.Min == "" && list[0].Range.Max == "FF" {
			have = "object"
			if strings.HasPrefix(token, "[") {
				have = "array"
			}
		}
	}
	if want != have {
		c.differs(classContinuation, "", want, have)
	}
}

// tails are the forms of what follows the text of an error's message.
var tails = []struct {
	form    string
	pattern *regexp.Regexp
}{
	{"gateway", regexp.MustCompile(`(?s)\r\nActivityId: [0-9a-f-]{36}, Microsoft\.Azure\.Documents\.Common/\d+\.\d+\.\d+$`)},
	{"backend", regexp.MustCompile(`(?s)\r\nActivityId: [0-9a-f-]{36}, Request URI: /\S+, RequestStats: , SDK: Microsoft\.Azure\.Documents\.Common/\d+\.\d+\.\d+$`)},
	{"diagnostics", regexp.MustCompile(`(?s), \r\nRequestStartTime: .*Microsoft\.Azure\.Documents\.Common/\d+\.\d+\.\d+$`)},
	{"other", regexp.MustCompile(`(?s),?\s*\n(ActivityId|RequestStartTime): .*$`)},
}

func splitMessage(message string) (text, tail string) {
	for _, t := range tails {
		if at := t.pattern.FindStringIndex(message); at != nil {
			return message[:at[0]], t.form
		}
	}
	return message, "none"
}

// error compares the code, the text and the tail of an error.
func (c *comparison) error(body any) {
	if c.want.Text == nil && c.want.Status < http.StatusBadRequest {
		return
	}
	o, _ := body.(object)
	if have, _ := o.get("code"); c.want.Code != nil && have != *c.want.Code {
		c.differs(classText, "code", *c.want.Code, have)
	}
	if c.want.Text == nil {
		return
	}
	message, _ := o.get("message")
	whole, _ := message.(string)
	have, tail := splitMessage(whole)
	if have != *c.want.Text {
		c.differs(classText, "message", *c.want.Text, have)
	}
	wantTail := "none"
	if c.want.Tail != nil {
		wantTail = *c.want.Tail
	}
	if tail != wantTail {
		c.differs(classTail, "", wantTail, tail)
	}
	members := []string{"code", "message"}
	if c.want.Plan != nil {
		members = append(members, "additionalErrorInfo")
	}
	if !slices.Equal(o.names(), members) {
		c.differs(classBody, "members", strings.Join(members, ", "), strings.Join(o.names(), ", "))
	}
}

func (c *comparison) plan(body any) {
	if c.want.Plan == nil {
		return
	}
	if c.want.Status >= http.StatusBadRequest {
		o, _ := body.(object)
		body, _ = o.get("additionalErrorInfo")
		if text, ok := body.(string); ok {
			if plan, err := parse([]byte(text)); err == nil {
				body = plan
			}
		}
	}
	want, err := parse(c.want.Plan)
	if err != nil {
		c.differs(classPlan, "", "JSON", err.Error())
		return
	}
	inPlan := &comparison{}
	inPlan.values("plan", want, body)
	for _, d := range inPlan.found {
		c.differs(classPlan, d.at, d.want, d.have)
	}
}

// page compares what is known of a list of documents or of a batch's results.
func (c *comparison) page(body any) {
	want := c.want.Page
	if want == nil {
		return
	}
	rows, isList := body.([]any)
	if o, ok := body.(object); ok && !isList {
		list, _ := o.get("Documents")
		rows, _ = list.([]any)
	}
	if len(rows) != want.Count {
		c.differs(classBody, "count", strconv.Itoa(want.Count), strconv.Itoa(len(rows)))
	}
	if len(rows) == 0 {
		return
	}
	for _, end := range []struct {
		at   string
		row  any
		want *string
	}{{"first id", rows[0], want.First}, {"last id", rows[len(rows)-1], want.Last}} {
		o, _ := end.row.(object)
		if inner, ok := o.get("resourceBody"); ok {
			o, _ = inner.(object)
		}
		if id, _ := o.get("id"); end.want != nil && id != *end.want {
			c.differs(classBody, end.at, *end.want, id)
		}
	}
	first, _ := rows[0].(object)
	if want.Members != nil && !slices.Equal(first.names(), want.Members) {
		c.differs(classOrder, "members", strings.Join(want.Members, ", "), strings.Join(first.names(), ", "))
	}
	if charge, _ := first.get("requestCharge"); want.EachCharge != nil && text(charge) != *want.EachCharge {
		c.differs(classCharge, "requestCharge", *want.EachCharge, charge)
	}
}

func (c *comparison) whole(body any) {
	if c.want.Body == nil {
		return
	}
	if *c.want.Body == "" {
		if len(c.have.body) > 0 {
			c.differs(classBody, "", "(empty)", fmt.Sprintf("%.100s", c.have.body))
		}
		return
	}
	want, err := parse([]byte(*c.want.Body))
	if err != nil {
		c.differs(classBody, "", "JSON", err.Error())
		return
	}
	c.values("", want, body)
}

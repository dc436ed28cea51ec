package outage

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// The end of an outage was once logged while a member still waited for its next request, and
// its length counted only to the last failure.
func TestAnOutageLastsUntilTheLastMemberIsServed(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	o := Log{Subject: "requests to the source"}
	err := errors.New("connection refused")
	o.Failed(log, 10*time.Second, "a", err, false)
	o.Failed(log, 20*time.Second, "b", err, false)
	o.Worked(log, 30*time.Second, "b")
	o.Worked(log, 40*time.Second, "b")
	if strings.Contains(out.String(), "again") {
		t.Errorf("the outage ends before member a is served:\n%s", &out)
	}
	o.Worked(log, 50*time.Second, "a")
	if !strings.Contains(out.String(), `msg="requests to the source succeed again" failures=2 after=40s`) {
		t.Errorf("the outage took 40s:\n%s", &out)
	}

	out.Reset()
	o.Failed(log, 100*time.Second, "a", err, false)
	o.Worked(log, 105*time.Second, "a")
	o.Failed(log, 110*time.Second, "b", err, false)
	o.Worked(log, 120*time.Second, "b")
	o.Worked(log, 124*time.Second, "a")
	if strings.Contains(out.String(), "again") {
		t.Errorf("the outage ends less than %s after its last failure:\n%s", Settled, &out)
	}
	o.Worked(log, 140*time.Second, "a")
	if !strings.Contains(out.String(), `msg="requests to the source succeed again" failures=2 after=20s`) {
		t.Errorf("the outage took 20s, until member b was served:\n%s", &out)
	}
}

// Members that throttling cost were once logged one by one, before any line named the
// throttling.
func TestThrottlingThatCostsAMemberIsNamedAtOnce(t *testing.T) {
	var out bytes.Buffer
	log := slog.New(slog.NewTextHandler(&out, nil))
	o := Log{Subject: "requests to the lease store", Members: "leases"}
	err := errors.New("too many requests")
	o.Failed(log, 10*time.Second, "a", err, true)
	o.Failed(log, 12*time.Second, "b", err, true)
	if o.Lost(log, 20*time.Second, "c") || out.Len() > 0 {
		t.Errorf("the loss of a member whose requests succeed has another reason than short throttling:\n%s", &out)
	}
	if !o.Lost(log, 50*time.Second, "a") || !o.Lost(log, 51*time.Second, "b") {
		t.Error("the members were lost for another reason than the throttling")
	}
	want := `msg="requests to the lease store fail; retrying" failures=2 lost=1 regained=0 for=40s leases=2 error="too many requests"`
	if !strings.Contains(out.String(), want) || strings.Count(out.String(), "\n") != 1 {
		t.Errorf("the log has no line, or not only the line %s:\n%s", want, &out)
	}
	out.Reset()
	o.Worked(log, 60*time.Second, "a")
	o.Worked(log, 60*time.Second, "b")
	if !o.Regained("a") || !o.Regained("b") || o.Regained("c") {
		t.Error("the members that came back are not those that were lost")
	}
	o.Worked(log, 80*time.Second, "a")
	want = `msg="requests to the lease store succeed again" failures=2 lost=2 regained=2 after=50s`
	if !strings.Contains(out.String(), want) || o.Lasts() {
		t.Errorf("the log has no line %s:\n%s", want, &out)
	}
}

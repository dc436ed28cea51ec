package main

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
)

func TestLagCountsLettersAndParkedKeys(t *testing.T) {
	m := newMailer(t)
	stop := m.start()
	m.breaks("a1", "b1")
	m.write("ada", "a1")
	m.write("ada", "a2")
	m.write("ben", "b1")
	stop()
	code, out, errOut := m.run("lag", "--letters", "letters")
	if code != exitOK || !regexp.MustCompile(`^LEASE +PARTITION +STATE +OWNER +LAG +AGE +LETTERS +PARKED +POSITION\n(.|\n)*; 3 letters, 1 parked key \(`).MatchString(out) {
		t.Errorf("status %d: %s%s", code, out, errOut)
	}
	var got struct {
		Leases []struct{ Letters, ParkedKeys *int }
		Total  struct{ Letters, ParkedKeys *int }
	}
	code, out, errOut = m.run("lag", "--letters", "letters", "--letters-database", "shop", "--json")
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != exitOK {
		t.Fatalf("status %d: %v: %s%s", code, err, out, errOut)
	}
	n, parked := 0, 0
	for _, l := range got.Leases {
		n, parked = n+*l.Letters, parked+*l.ParkedKeys
	}
	if n != 3 || parked != 1 || *got.Total.Letters != 3 || *got.Total.ParkedKeys != 1 {
		t.Errorf("%s", out)
	}
	if code, out, _ := m.run("lag"); code != exitOK || strings.Contains(strings.ToLower(out), "letter") || strings.Contains(out, "PARKED") {
		t.Errorf("without letters: status %d: %s", code, out)
	}
	if code, out, _ := m.run("lag", "--json"); code != exitOK || strings.Contains(out, "etters") || strings.Contains(out, "parked") {
		t.Errorf("without letters: status %d: %s", code, out)
	}
	code, out, errOut = m.run("lag", "--letters", "absent")
	if code != exitFailed || !strings.Contains(out, "; the letters could not be read: ") || !strings.Contains(out, " ? ") ||
		!strings.Contains(errOut, "the letters container shop/absent does not exist; name it with --letters and --letters-database") {
		t.Errorf("without the container: status %d: %s%s", code, out, errOut)
	}
	if code, out, _ := m.run("lag", "--letters", "leases", "--json"); code != exitFailed || !strings.Contains(out, `"lettersError": "`) {
		t.Errorf("with the container of the leases: status %d: %s", code, out)
	}
	for _, args := range [][]string{{"--letters", ""}, {"--letters-database", "shop"}} {
		if code, out, errOut := m.run(append([]string{"lag"}, args...)...); code != exitUsage || !strings.Contains(errOut, "--letters") {
			t.Errorf("%v: status %d: %s%s", args, code, out, errOut)
		}
	}
}

package deploy

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"
)

// units returns the units of systemd, with the time that each may take to stop by default.
func units(t *testing.T) map[string]time.Duration {
	return map[string]time.Duration{
		"changefeed-serve.service": drainOfServe,
		"processor@.service":       seconds(t, "defaultDrain") + 2*seconds(t, "defaultRequest"),
	}
}

// drainOfServe is the default of --drain.
const drainOfServe = 10 * time.Second

// seconds returns a constant of config.go.
func seconds(t *testing.T, name string) time.Duration {
	t.Helper()
	m := regexp.MustCompile(`(?m)^\s*` + name + `\s*=\s*(\d+) \* time\.Second$`).FindStringSubmatch(text(t, "config.go"))
	if m == nil {
		t.Fatalf("config.go has no constant %s in seconds", name)
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		t.Fatal(err)
	}
	return time.Duration(n) * time.Second
}

// settings returns the values of a setting in a unit, of which there is at least one.
func settings(t *testing.T, unit, name string) []string {
	t.Helper()
	var values []string
	for _, m := range regexp.MustCompile(`(?m)^`+name+`=(.*)$`).FindAllStringSubmatch(text(t, "deploy/systemd/"+unit), -1) {
		values = append(values, m[1])
	}
	if values == nil {
		t.Fatalf("%s has no line %s", unit, name)
	}
	return values
}

// instance returns the environment that the unit gives host n of a processor.
func instance(t *testing.T, n int) map[string]string {
	t.Helper()
	env := map[string]string{}
	for _, s := range settings(t, "processor@.service", "Environment") {
		name, value, _ := strings.Cut(s, "=")
		env[name] = strings.NewReplacer("%H", "machine", "%i", strconv.Itoa(n)).Replace(value)
	}
	return env
}

// Each host has a port of its own, and none has one of the server's, so that one machine can
// run them all.
func TestUnitsListenOnPortsOfTheirOwn(t *testing.T) {
	taken := map[string]string{}
	take := func(who, address string) {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			t.Errorf("%s listens on %q: %v", who, address, err)
		} else if taken[port] != "" {
			t.Errorf("%s and %s both listen on port %s", taken[port], who, port)
		}
		taken[port] = who
	}
	for _, m := range regexp.MustCompile(`listen (\S+)`).FindAllStringSubmatch(settings(t, "changefeed-serve.service", "ExecStart")[0], -1) {
		take("changefeed-serve", m[1])
	}
	if len(taken) != 2 {
		t.Errorf("the server listens on %v", taken)
	}
	for n := 1; n <= 9; n++ {
		take("processor@"+strconv.Itoa(n), instance(t, n)["LISTEN"])
	}
}

// systemd itself checks the units, with programs that exist. Its own measure of how much a
// service may do goes from 0 to 10, and most services of distributions have 9.
func TestUnitsAreValidAndHardened(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("needs systemd-analyze")
	}
	dir := t.TempDir()
	for name := range units(t) {
		unit := regexp.MustCompile(`(?m)^ExecStart=\S+`).ReplaceAllString(text(t, "deploy/systemd/"+name), "ExecStart=/bin/true")
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(unit), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"verify", "--man=no"}, {"security", "--offline=true", "--no-pager", "--threshold=20"}} {
			out, err := exec.CommandContext(t.Context(), analyze, append(args, path)...).CombinedOutput()
			if said := strings.TrimSpace(string(out)); err != nil || args[0] == "verify" && said != "" {
				t.Errorf("systemd-analyze %s %s: %v\n%s", args[0], name, err, said)
			}
		}
	}
}

func TestUnitsGiveTimeToStopAndHoldNoSecret(t *testing.T) {
	_, help, _ := strings.Cut(text(t, "docs/command.md"), "\n## changefeed serve\n")
	if !strings.Contains(help, "(default "+drainOfServe.String()+")") {
		t.Errorf("the default of --drain is no longer %s", drainOfServe)
	}
	for name, stop := range units(t) {
		unit := text(t, "deploy/systemd/"+name)
		m := regexp.MustCompile(`(?m)^TimeoutStopSec=(\d+)$`).FindStringSubmatch(unit)
		if m == nil {
			t.Fatalf("%s sets no TimeoutStopSec", name)
		}
		if n, err := strconv.Atoi(m[1]); err != nil || time.Duration(n)*time.Second <= stop {
			t.Errorf("%s gives %s s to stop, which may take %s", name, m[1], stop)
		}
		start := regexp.MustCompile(`(?m)^ExecStart=.*$`).FindString(unit)
		for _, flag := range regexp.MustCompile(` --([a-z-]+)`).FindAllStringSubmatch(start, -1) {
			if strings.HasPrefix(flag[1], "key") || strings.HasPrefix(flag[1], "read-only-key") || !strings.Contains(help, "      --"+flag[1]+" ") {
				t.Errorf("%s: --%s holds a key, or does not exist", name, flag[1])
			}
		}
		if m := regexp.MustCompile(`(?mi)^Environment=.*key`).FindString(unit); m != "" {
			t.Errorf("%s: %s", name, m)
		}
	}
}

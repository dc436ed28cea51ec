package changefeed

import (
	"os/exec"
	"strings"
	"testing"
)

// What a user of the processor links stays light: the root needs the standard library,
// feed and lease, and the API of OpenTelemetry's metrics, which comes with a hash
// function. So does the estimator. feed and lease need nothing but the standard library.
func TestRootFeedAndLeaseLinkLittle(t *testing.T) {
	const module = "github.com/changefeed-go/changefeed"
	api := []string{"go.opentelemetry.io/otel/", "github.com/cespare/xxhash/v2"}
	for _, c := range []struct {
		of      []string
		allowed []string // prefixes of what isn't ours
	}{
		{[]string{module + "/feed", module + "/lease"}, nil},
		{[]string{module}, api},
		{[]string{module + "/estimator"}, api},
	} {
		cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}"}, c.of...)...)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		ours := map[string]bool{module + "/feed": true, module + "/lease": true}
		for _, path := range c.of {
			ours[path] = true
		}
		found := 0
		for path := range strings.FieldsSeq(string(out)) {
			if ours[path] {
				found++
				continue
			}
			light := false
			for _, prefix := range c.allowed {
				light = light || strings.HasPrefix(path, prefix)
			}
			if !light || strings.Contains(path, "/sdk/") {
				t.Errorf("%v links %s", c.of, path)
			}
		}
		if found != len(ours) {
			t.Errorf("go list shows %d of %d packages of ours", found, len(ours))
		}
	}
}

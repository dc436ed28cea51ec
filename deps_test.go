package changefeed

import (
	"os/exec"
	"strings"
	"testing"
)

// What a user of the processor links stays light: the root, feed and lease need
// the standard library, each other, and at most the API of OpenTelemetry.
func TestRootFeedAndLeaseNeedOnlyTheStandardLibrary(t *testing.T) {
	const module = "github.com/changefeed-go/changefeed"
	allowed := map[string]bool{module: true, module + "/feed": true, module + "/lease": true}
	cmd := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
		module, module+"/feed", module+"/lease")
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for path := range strings.FieldsSeq(string(out)) {
		found++
		if !allowed[path] && !strings.HasPrefix(path, "go.opentelemetry.io/otel") {
			t.Errorf("%s is linked", path)
		}
	}
	if found < len(allowed) {
		t.Fatalf("go list shows %d packages", found)
	}
}

// Package mixed tests hosts of this module's processor and of Java's that share leases,
// in each of Java's modes. They balance, acquire each other's leases, are killed
// (SIGKILL) and replaced. Meanwhile partitions split and merge, and writes continue. A
// scene fails if
//
//   - a change was not delivered, or was delivered before an earlier one of its key,
//   - the leases are not balanced in time,
//   - a lease document has members that neither side writes.
//
// The scenes need Java 17 and Maven:
//
//	go test ./interop/mixed -timeout 0 -v -mixed         one scene in each dialect (2 to 3 minutes)
//	go test ./interop/mixed -timeout 0 -v -mixed.full    every scene in every mode (make interop-java)
//	go test ./interop/mixed -timeout 0 -v -mixed.full -run /rolling/latestVersion
package mixed

import (
	"flag"
	"testing"

	"github.com/changefeed-go/changefeed/interop/internal/harness"
)

var (
	mixedRun  = flag.Bool("mixed", false, "run the short scene of shared leases in each dialect")
	mixedFull = flag.Bool("mixed.full", false, "run every scene of shared leases in every mode (half an hour)")
)

// scenes contains all scenes by name. The scene "short" runs for every change of the
// repository.
var scenes = []struct {
	name  string
	modes []string
	play  func(s *scene)
}{
	{"short", []string{handleChanges, latestVersion}, short},
	{"balance", []string{handleChanges, latestVersion, allVersions}, balance},
	{"kills", []string{handleChanges, latestVersion, allVersions}, kills},
	{"resume", []string{handleChanges, latestVersion, allVersions}, resume},
	{"topology", []string{handleChanges, latestVersion, allVersions}, topology},
	{"stops", []string{handleChanges, latestVersion, allVersions}, stops},
	{"rolling", []string{handleChanges, latestVersion, allVersions}, rolling},
	{"busy", []string{handleChanges, latestVersion, allVersions}, busy},
	{"time", []string{handleChanges, latestVersion}, fromTime},
	{"upgrade", []string{handleChanges}, upgrade},
	{"names", []string{latestVersion}, names},
	{"timestamps", []string{handleChanges, latestVersion}, timestamps},
}

func TestHostsShareLeasesWithJava(t *testing.T) {
	if !*mixedRun && !*mixedFull {
		t.Skip("run with -mixed (make interop) or -mixed.full (make interop-java)")
	}
	var driver harness.Driver
	driver.Start(t)
	for _, sc := range scenes {
		if sc.name != "short" && !*mixedFull {
			continue
		}
		t.Run(sc.name, func(t *testing.T) {
			for _, mode := range sc.modes {
				t.Run(mode, func(t *testing.T) { sc.play(newScene(t, &driver, mode, sc.name+"-"+mode)) })
			}
		})
	}
}

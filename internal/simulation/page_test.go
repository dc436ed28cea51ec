package simulation

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var pagesUpdate = flag.Bool("pages.update", false, "write the tables of docs/simulation.md from the code")

// docs/simulation.md must list the features of the code, and the cases without seeds.
func TestSimulationPageIsCurrent(t *testing.T) {
	const file = "../../docs/simulation.md"
	page, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	current := string(page)
	for name, table := range map[string]string{"features": featureTable(), "rules": ruleTable(), "not generated": gapTable()} {
		begin, end := fmt.Sprintf("<!-- %s: written by make pages -->\n", name), fmt.Sprintf("<!-- end of %s -->\n", name)
		before, rest, found := strings.Cut(current, begin)
		_, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("%s lacks the lines %q and %q", file, begin, end)
		}
		current = before + begin + "\n" + table + "\n" + end + after
	}
	switch {
	case current == string(page):
	case *pagesUpdate:
		if err := os.WriteFile(file, []byte(current), 0o644); err != nil {
			t.Fatal(err)
		}
	default:
		t.Errorf("%s differs from the tables of the code; run: make pages", file)
	}
}

// featureTable returns the table of the features in Markdown.
func featureTable() string {
	var b strings.Builder
	const seeds = 10_000
	have := map[string]int{}
	for seed := range uint64(seeds) {
		for name := range newScenario(planOf(seed + 1)).features {
			have[name]++
		}
	}
	b.WriteString("| feature | content | needs | of all seeds | mutant |\n|---|---|---|---|---|\n")
	for _, f := range allFeatures {
		var needs []string
		for _, n := range f.needs {
			needs = append(needs, n.text)
		}
		share := fmt.Sprintf("%.1f %%", 100*float64(have[f.name])/seeds)
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s | %s |\n", f.name, f.text, strings.Join(needs, ", "), share, f.mutant)
	}
	return b.String()
}

// ruleTable returns the table of the rules in Markdown.
func ruleTable() string {
	var b strings.Builder
	b.WriteString("| rule | guarantee | facts that exempt | mutant |\n|---|---|---|---|\n")
	for _, r := range allRules {
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", r.name, r.text, strings.Join(r.exempt, "<br>"), r.mutant)
	}
	return b.String()
}

// gapTable returns the table of notGenerated in Markdown.
func gapTable() string {
	var b strings.Builder
	b.WriteString("| not generated | tested by |\n|---|---|\n")
	for _, g := range notGenerated {
		fmt.Fprintf(&b, "| %s | %s |\n", g.what, g.testedBy)
	}
	return b.String()
}

// gap is a case that no seed contains. testedBy names the tests that cover it.
type gap struct{ what, testedBy string }

// notGenerated lists the cases of the processor's users that no seed contains.
var notGenerated = []gap{
	{"A merge in a processor's first start", "`TestOverlappingLeasesAreNamed`. Two hosts may create leases that overlap, and deliver the common keys' changes twice until `changefeed leases check --repair` cuts the leases"},
	{"A merge while the lease store refuses deletes, or while a lease is missing that an operator deleted", "no test. Leases may overlap as in the first row"},
	{"A machine that is suspended and whose wall clock is also set back, within one expiration interval", "no test. Both clocks are then wrong, so the host does not learn that its trust has ended"},
	{"Hosts with different expiration intervals", "no test. `Config.ExpirationInterval` must be equal on all hosts"},
	{"More than 16 hosts or 32 partitions", "for the balance, with up to 200 hosts and 10,000 leases, `TestBalanceWithinThreeAndAHalfIntervalsAndNoMovesAfter`"},
	{"A marker that is created late, during a discard, in the dialect `handleChanges`", "no test. A marker without leases looks like an upgrade by a Java host there, so `Run` refuses to start until the leases are discarded again"},
	{"Several processors with one lease container", "`Example_twoProcessors`"},
	{"A monitored container that is deleted and created again", "`TestARecreatedContainerIsRefused`"},
	{"A lease document that cannot be read", "`TestUnreadableLeaseDocumentStopsNoOtherLease`"},
	{"Leases that are converted to another dialect", "`TestFleetMovesFromAnotherImplementationAndBack`"},
	{"Regions that fail, and replicas that are behind", "`TestAReadContinuesInTheNextRegion`, `TestARegionThatHangsIsGivenUp`"},
	{"Azure Cosmos DB itself", "no test. The official SDKs and hosts of .NET and Java are tested against `changefeed serve`"},
	{"Items that expire, and are read over HTTP", "package feedtest's cases with a time to live, which `TestSourceConformsInBubble` in `internal/integration/cosmos` runs, and `TestVersionsHaveImagesAndDeletedNames` in package `cosmos`"},
}

package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/leases"
)

// Several pages contain the names of the kinds of damage, and their number. Both must
// match the list leases.Kinds.
func TestTheDocumentsHaveTheKindsOfDamageOfTheList(t *testing.T) {
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	want := fmt.Sprintf("finds %d kinds of damage and repairs %d", len(leases.Kinds), leases.Repairs())
	troubleshooting := read("../../TROUBLESHOOTING.md")
	_, help, _ := command(t, "leases", "check", "--help")
	for name, text := range map[string]string{"TROUBLESHOOTING.md": troubleshooting, "--help": strings.ToLower(help)} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%s doesn't say %q once", name, want)
		}
	}
	_, section, _ := strings.Cut(troubleshooting, "\n## `leases check` finds damage\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var listed, documented []leases.KindText
	for _, row := range regexp.MustCompile("(?m)^\\| `([^`]+)` \\|.*\\| ([^|]+) \\|$").FindAllStringSubmatch(section, -1) {
		documented = append(documented, leases.KindText{Kind: leases.Kind(row[1]), Repaired: !strings.HasPrefix(row[2], "nothing")})
	}
	for _, k := range leases.Kinds {
		listed = append(listed, leases.KindText{Kind: k.Kind, Repaired: k.Repaired})
		if !strings.Contains(help, string(k.Kind)+" ") {
			t.Errorf("the help has no %s", k.Kind)
		}
	}
	if !slices.Equal(documented, listed) {
		t.Errorf("TROUBLESHOOTING.md has\n%v, and the list is\n%v", documented, listed)
	}
	// Each constant of type Kind must be in the list.
	source := read("internal/leases/damage.go")
	for _, constant := range regexp.MustCompile(`\bKind += "([^"]+)"`).FindAllStringSubmatch(source, -1) {
		if !slices.ContainsFunc(leases.Kinds, func(k leases.KindText) bool { return string(k.Kind) == constant[1] }) {
			t.Errorf("the list has no %s", constant[1])
		}
	}
}

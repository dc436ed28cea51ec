package deploy

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// series describes a metric as Prometheus sees it: which labels it may have, and of each
// which values, as far as docs/metrics.md lists them.
type series struct{ labels []string }

// metrics returns the series of the instruments in docs/metrics.md, by name, and the text
// that describes each attribute. The page is generated from the instruments.
func metrics(t *testing.T) (all map[string]series, values map[string]string) {
	t.Helper()
	all, values = map[string]series{}, map[string]string{}
	page := text(t, "docs/metrics.md")
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_.]+)` \\| ([a-z -]+) \\| (\\S+) \\| ([a-z, _]+) \\|").FindAllStringSubmatch(page, -1) {
		name, labels := strings.ReplaceAll(m[1], ".", "_"), strings.Split(m[4], ", ")
		name += map[string]string{"s": "_seconds", "By": "_bytes"}[m[3]]
		switch m[2] {
		case "counter":
			all[name+"_total"] = series{labels}
		case "histogram":
			all[name+"_bucket"], all[name+"_sum"], all[name+"_count"] = series{append(labels, "le")}, series{labels}, series{labels}
		default:
			all[name] = series{labels}
		}
	}
	for _, m := range regexp.MustCompile("(?m)^\\| `([a-z]+)` \\| (.*) \\|$").FindAllStringSubmatch(page, -1) {
		values[m[1]] += m[2]
	}
	if len(all) < 30 || len(values) < 6 {
		t.Fatalf("docs/metrics.md has %d series and %d attributes", len(all), len(values))
	}
	return all, values
}

// checkQuery reports each metric, label and label value in a query that no instrument has.
// It knows the syntax of the queries here, in which a metric's labels follow its name.
// promtool checks that of PromQL (make deploy-check).
func checkQuery(t *testing.T, where, query string) {
	t.Helper()
	all, values := metrics(t)
	found := regexp.MustCompile(`\b(changefeed_\w+)(?:\{([^}]*)\})?`).FindAllStringSubmatch(query, -1)
	if len(found) == 0 {
		t.Errorf("%s: no metric in %s", where, query)
	}
	var labels []string
	for _, m := range found {
		s, ok := all[m[1]]
		if !ok {
			t.Errorf("%s: no instrument is called %s", where, m[1])
			continue
		}
		labels = append(labels, s.labels...)
		for _, l := range regexp.MustCompile(`(\w+)(?:=~|=|!=|!~)"([^"]*)"`).FindAllStringSubmatch(m[2], -1) {
			if !slices.Contains(s.labels, l[1]) {
				t.Errorf("%s: %s has no label %s", where, m[1], l[1])
			}
			for value := range strings.SplitSeq(l[2], "|") {
				if value != "$processor" && !strings.Contains(values[l[1]], "`"+value+"`") {
					t.Errorf("%s: docs/metrics.md has no value %q of %s", where, value, l[1])
				}
			}
		}
	}
	for _, m := range regexp.MustCompile(`\bby \(([^)]*)\)`).FindAllStringSubmatch(query, -1) {
		for label := range strings.SplitSeq(m[1], ", ") {
			if label != "instance" && !slices.Contains(labels, label) { // Prometheus adds instance
				t.Errorf("%s: no metric of the query has a label %s", where, label)
			}
		}
	}
}

// A renamed instrument would leave an alert that never fires.
func TestAlertsUseMetricsThatExist(t *testing.T) {
	var c struct {
		Groups []struct {
			Name  string
			Rules []struct {
				Alert, Expr, For    string
				Labels, Annotations map[string]string
			}
		}
	}
	decode(t, "deploy/prometheus/changefeed.rules.yml", &c, true)
	tests := text(t, "deploy/prometheus/changefeed.rules.test.yml")
	alerts := 0
	for _, g := range c.Groups {
		for _, r := range g.Rules {
			alerts++
			checkQuery(t, r.Alert, r.Expr)
			if !strings.Contains(tests, r.Alert) {
				t.Errorf("changefeed.rules.test.yml has no test of %s", r.Alert)
			}
			if !slices.Contains([]string{"warning", "critical"}, r.Labels["severity"]) || r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
				t.Errorf("%s: labels %v, annotations %v", r.Alert, r.Labels, r.Annotations)
			}
			checkAnchor(t, r.Alert, r.Annotations["runbook"])
		}
	}
	if alerts < 11 {
		t.Errorf("%d alerts", alerts)
	}
}

// checkAnchor reports a link to a heading that its page does not have.
func checkAnchor(t *testing.T, where, link string) {
	t.Helper()
	page, anchor, _ := strings.Cut(link, "#")
	dropped := regexp.MustCompile(`[^\p{L}\p{N}_ -]`)
	for _, m := range regexp.MustCompile(`(?m)^## (.+)$`).FindAllStringSubmatch(text(t, page), -1) {
		if strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-") == anchor {
			return
		}
	}
	t.Errorf("%s: %s leads nowhere", where, link)
}

// dashboard is what the tests read of a Grafana dashboard.
type dashboard struct {
	Panels []struct {
		Title, Description string
		GridPos            struct{ X, Y, W, H int }
		Targets            []struct{ Expr string }
	}
	Templating struct {
		List []struct{ Name, Definition string }
	}
}

func TestDashboardUsesMetricsThatExist(t *testing.T) {
	var d dashboard
	if err := json.Unmarshal([]byte(text(t, "deploy/grafana/changefeed.json")), &d); err != nil {
		t.Fatal(err)
	}
	taken := map[[2]int]string{}
	for _, p := range d.Panels {
		if p.Description == "" || len(p.Targets) == 0 {
			t.Errorf("panel %q has no description or no query", p.Title)
		}
		for _, target := range p.Targets {
			checkQuery(t, p.Title, target.Expr)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" || x >= 24 {
					t.Fatalf("panel %q covers %q, or leaves the grid", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
	}
	if len(d.Panels) < 16 {
		t.Errorf("%d panels", len(d.Panels))
	}
	for _, v := range d.Templating.List {
		if v.Name == "processor" {
			checkQuery(t, "variable "+v.Name, v.Definition)
		}
	}
}

// Package charttest renders the Helm charts, as Helm does, and decodes the result strictly into
// the types of Kubernetes and KEDA. It is a module of its own because of what they need.
package charttest

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	keda "github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	policy "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"

	"github.com/changefeed-go/changefeed"
	"github.com/changefeed-go/changefeed/changefeedtest/memory"
)

// rendered is the result of a chart.
type rendered struct {
	account    core.ServiceAccount
	deployment apps.Deployment
	budget     policy.PodDisruptionBudget
	scaled     keda.ScaledObject
	auth       keda.TriggerAuthentication
	set        apps.StatefulSet
	service    core.Service
	text       string
}

// files returns what a chart makes of values over its defaults, by the names of its templates.
func files(t *testing.T, name, values string) (map[string]string, error) {
	t.Helper()
	chart, err := loader.Load("../helm/" + name)
	if err != nil {
		t.Fatal(err)
	}
	given, err := chartutil.ReadValues([]byte(values))
	if err != nil {
		t.Fatal(err)
	}
	all, err := chartutil.ToRenderValues(chart, given, chartutil.ReleaseOptions{Name: "mailer", Namespace: "shop"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return engine.Render(chart, all)
}

// render renders the chart of a processor.
func render(t *testing.T, values string) rendered {
	t.Helper()
	return decoded(t, "processor", values)
}

// decoded renders a chart, and decodes the result strictly.
func decoded(t *testing.T, name, values string) rendered {
	t.Helper()
	texts, err := files(t, name, values)
	if err != nil {
		t.Fatal(err)
	}
	var r rendered
	kinds := map[string]any{
		"ServiceAccount": &r.account, "Deployment": &r.deployment, "PodDisruptionBudget": &r.budget,
		"ScaledObject": &r.scaled, "TriggerAuthentication": &r.auth, "StatefulSet": &r.set, "Service": &r.service,
	}
	for name, text := range texts {
		for document := range strings.SplitSeq(text, "\n---\n") {
			if strings.TrimSpace(document) == "" {
				continue
			}
			kind := regexp.MustCompile(`(?m)^kind: (\w+)$`).FindStringSubmatch(document)
			if kind == nil || kinds[kind[1]] == nil {
				t.Fatalf("%s has a document of an unknown kind:\n%s", name, document)
			}
			if err := yaml.UnmarshalStrict([]byte(document), kinds[kind[1]]); err != nil {
				t.Errorf("%s: %v\n%s", name, err, document)
			}
			r.text += document
		}
	}
	return r
}

const plain = "{image: example.com/mailer, drainTimeout: 45, requestTimeout: 20, cosmos: {endpoint: 'https://a.example.com', secret: {name: account}}}"

func TestHostIsNotKilledWhileItDrains(t *testing.T) {
	pod := render(t, plain).deployment.Spec.Template.Spec
	if grace := *pod.TerminationGracePeriodSeconds; grace <= 45+2*20 {
		t.Errorf("a host is killed after %d s", grace)
	}
	var defaults struct{ DrainTimeout, RequestTimeout int }
	file, err := os.ReadFile("../helm/processor/values.yaml")
	if err == nil {
		err = yaml.Unmarshal(file, &defaults)
	}
	if err != nil {
		t.Fatal(err)
	}
	config, err := os.ReadFile("../../config.go")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"defaultDrain": "30", "defaultRequest": "10"} {
		if !regexp.MustCompile(name + `\s*=\s*` + want + ` \* time\.Second`).Match(config) {
			t.Errorf("%s of config.go is not %s s", name, want)
		}
	}
	if defaults.DrainTimeout != 30 || defaults.RequestTimeout != 10 {
		t.Errorf("the chart's defaults are %+v", defaults)
	}
}

// The probes ask for paths that HealthHandler serves.
func TestProbesNameServedPaths(t *testing.T) {
	p, err := changefeed.New(changefeed.Config{
		Processor: "p", Source: memory.NewSource(memory.Options{}), Leases: memory.NewLeases(nil),
		Handler: changefeed.HandlerFunc(func(context.Context, *changefeed.Batch) error { return nil }),
	})
	if err != nil {
		t.Fatal(err)
	}
	c := render(t, plain).deployment.Spec.Template.Spec.Containers[0]
	for path, probe := range map[string]*core.Probe{"/alive": c.LivenessProbe, "/ready": c.ReadinessProbe} {
		if probe.HTTPGet.Path != path || probe.HTTPGet.Port.StrVal != c.Ports[0].Name {
			t.Errorf("the probe of %s is %+v", path, probe.HTTPGet)
		}
		answer := httptest.NewRecorder()
		changefeed.HealthHandler(p).ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodGet, probe.HTTPGet.Path, http.NoBody))
		if answer.Code == http.StatusNotFound {
			t.Errorf("%s is not served", path)
		}
	}
}

func TestSecretsAreReferencesOnly(t *testing.T) {
	r := render(t, plain)
	c := r.deployment.Spec.Template.Spec.Containers[0]
	if len(c.Args)+len(c.Command) != 0 {
		t.Errorf("arguments %v", c.Args)
	}
	i := slices.IndexFunc(c.Env, func(e core.EnvVar) bool { return e.Name == "COSMOS_KEY" })
	if i < 0 || c.Env[i].Value != "" || c.Env[i].ValueFrom.SecretKeyRef.Name != "account" || c.Env[i].ValueFrom.SecretKeyRef.Key != "key" {
		t.Errorf("the variables are %+v", c.Env)
	}
	if strings.Contains(render(t, "{image: x, cosmos: {endpoint: 'https://a'}}").text, "COSMOS_KEY") {
		t.Error("without a secret there is a key")
	}
	s := c.SecurityContext
	if *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !*r.deployment.Spec.Template.Spec.SecurityContext.RunAsNonRoot {
		t.Errorf("the container may %+v", s)
	}
}

// A secret may be called yes, and its key on, which YAML takes for booleans unless they are quoted.
func TestNamesOfSecretsAreText(t *testing.T) {
	const secret = "secret: {name: 'yes', key: 'on'}"
	r := render(t, "{image: x, cosmos: {endpoint: 'https://a', "+secret+"}, keda: {enabled: true, database: shop, container: orders, leaseContainer: leases, processor: mailer}}")
	if ref := r.deployment.Spec.Template.Spec.Containers[0].Env[2].ValueFrom.SecretKeyRef; ref.Name != "yes" || ref.Key != "on" {
		t.Errorf("a host's key is %+v", ref)
	}
	if s := r.auth.Spec.SecretTargetRef; len(s) != 1 || s[0].Name != "yes" || s[0].Key != "on" {
		t.Errorf("KEDA's key is %+v", s)
	}
	pod := decoded(t, "serve", "{image: x, "+secret+", tls: {secret: 'no'}}").set.Spec.Template.Spec
	if ref := pod.Containers[0].Env[0].ValueFrom.SecretKeyRef; ref.Name != "yes" || ref.Key != "on" || pod.Volumes[0].Secret.SecretName != "no" {
		t.Errorf("the server's key is %+v, its certificate %+v", ref, pod.Volumes[0].Secret)
	}
}

// The collector's limit is nine tenths of the container's, as docs/where-to-run.md says.
func TestCollectorsLimitIsNineTenthsOfTheContainers(t *testing.T) {
	for limit, bytes := range map[string]int64{"": 256 << 20, "512Mi": 512 << 20, "1.5Gi": 3 << 29, "2G": 2e9, "300000000": 3e8, "null": 0} {
		values := "{image: x, cosmos: {endpoint: 'https://a'}}"
		if limit != "" { // otherwise the chart's own
			values = strings.TrimSuffix(values, "}") + ", resources: {limits: {memory: " + limit + "}}}"
		}
		c := render(t, values).deployment.Spec.Template.Spec.Containers[0]
		if got := c.Resources.Limits.Memory().Value(); got != bytes {
			t.Errorf("the limit %q is %d bytes for Kubernetes", limit, got)
		}
		got, want := "", ""
		if i := slices.IndexFunc(c.Env, func(e core.EnvVar) bool { return e.Name == "GOMEMLIMIT" }); i >= 0 {
			got = c.Env[i].Value
		}
		if bytes > 0 {
			want = strconv.FormatInt(bytes*9/10, 10)
		}
		if got != want {
			t.Errorf("with a limit of %q, the collector's is %q, not %q", limit, got, want)
		}
	}
	for _, limit := range []string{"256MB", "Mi", "1Gi1"} {
		if _, err := files(t, "processor", "{image: x, cosmos: {endpoint: 'https://a'}, resources: {limits: {memory: "+limit+"}}}"); err == nil || !strings.Contains(err.Error(), "resources.limits.memory is "+limit) {
			t.Errorf("with a limit of %q the chart answers %v", limit, err)
		}
	}
}

// Every host keeps its work until another one is ready, and its name is that of its pod.
func TestUpdateKeepsEveryHostUntilTheNextIsReady(t *testing.T) {
	r := render(t, plain)
	d := r.deployment.Spec
	if d.Strategy.RollingUpdate.MaxUnavailable.IntVal != 0 || d.Strategy.RollingUpdate.MaxSurge.IntVal != 1 || *d.Replicas != 2 {
		t.Errorf("%d hosts, %+v", *d.Replicas, d.Strategy.RollingUpdate)
	}
	labels := d.Template.Labels
	for _, s := range []map[string]string{d.Selector.MatchLabels, r.budget.Spec.Selector.MatchLabels} {
		for k, v := range s {
			if labels[k] != v {
				t.Errorf("no pod has %s=%s", k, v)
			}
		}
		if len(s) != 2 {
			t.Errorf("a selector is %v", s)
		}
	}
	if e := d.Template.Spec.Containers[0].Env[0]; e.Name != "INSTANCE" || e.ValueFrom.FieldRef.FieldPath != "metadata.name" {
		t.Errorf("the instance is %+v", e)
	}
	if p := r.budget.Spec.UnhealthyPodEvictionPolicy; p == nil || *p != policy.AlwaysAllow || r.budget.Spec.MaxUnavailable.IntVal != 1 {
		t.Errorf("the budget is %+v", r.budget.Spec)
	}
}

// The names of the metadata are those that the scaler of KEDA 2.21 reads.
func TestKEDAScalesTheDeploymentByItsLag(t *testing.T) {
	r := render(t, "{image: x, cosmos: {endpoint: 'https://a'}, keda: {enabled: true, database: shop, container: orders, leaseContainer: leases, processor: mailer}}")
	if r.deployment.Spec.Replicas != nil {
		t.Error("the Deployment sets the number of hosts, too")
	}
	if r.scaled.Spec.ScaleTargetRef.Name != r.deployment.Name || r.auth.Name != r.scaled.Spec.Triggers[0].AuthenticationRef.Name {
		t.Errorf("it scales %+v, and signs in by %s", r.scaled.Spec.ScaleTargetRef, r.auth.Name)
	}
	want := map[string]string{
		"endpoint": "https://a", "databaseId": "shop", "containerId": "orders", "leaseDatabaseId": "shop", "leaseContainerId": "leases",
		"processorName": "mailer", "changeFeedLagThreshold": "1000",
	}
	if got := r.scaled.Spec.Triggers[0]; got.Type != "azure-cosmosdb" || !reflect.DeepEqual(got.Metadata, want) {
		t.Errorf("the trigger is %+v", got)
	}
	if p := r.auth.Spec.PodIdentity; p == nil || p.Provider != keda.PodIdentityProviderAzureWorkload {
		t.Errorf("the identity is %+v", p)
	}
	byKey := render(t, strings.TrimSuffix(plain, "}")+", keda: {enabled: true, database: shop, container: orders, leaseContainer: leases, processor: mailer}}")
	if s := byKey.auth.Spec.SecretTargetRef; len(s) != 1 || s[0].Parameter != "cosmosDBKey" || s[0].Name != "account" {
		t.Errorf("the key comes from %+v", s)
	}
}

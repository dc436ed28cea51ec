package charttest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const keyed = "{image: example.com/serve, drain: 7, secret: {name: cosmos}, storage: {size: 3Gi}}"

// The server of the image runs with the chart's arguments and its key from the environment, on
// other ports and another directory: the probes' paths have status 200, and SIGTERM ends it in
// less than the grace period.
func TestServerOfTheChartAnswersItsProbesAndStopsInTime(t *testing.T) {
	pod := decoded(t, "serve", keyed).set.Spec.Template.Spec
	c := pod.Containers[0]
	grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second
	if grace <= 7*time.Second {
		t.Errorf("the server is killed after %s", grace)
	}
	binary := filepath.Join(t.TempDir(), "changefeed")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/changefeed")
	build.Dir = "../.."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	health := freeAddress(t)
	var args []string
	for _, arg := range c.Args {
		args = append(args, strings.NewReplacer("/data", t.TempDir(), "0.0.0.0:8081", "127.0.0.1:0", "0.0.0.0:8080", health).Replace(arg))
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), binary, args...)
	cmd.Env, cmd.Stderr = append(os.Environ(), c.Env[0].Name+"=c2VjcmV0"), os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() }) // if the test fails before the server has ended
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "ready" {
	}
	for _, p := range []*core.Probe{c.LivenessProbe, c.ReadinessProbe} {
		if i := slices.IndexFunc(c.Ports, func(o core.ContainerPort) bool { return o.Name == p.HTTPGet.Port.StrVal }); i < 0 || c.Ports[i].ContainerPort != 8080 {
			t.Errorf("the probe of %s asks port %s", p.HTTPGet.Path, p.HTTPGet.Port.StrVal)
		}
		if status := statusOf(t, "http://"+health+p.HTTPGet.Path); status != http.StatusOK {
			t.Errorf("%s has status %d", p.HTTPGet.Path, status)
		}
	}
	killed := time.AfterFunc(grace, func() { _ = cmd.Process.Kill() })
	defer killed.Stop()
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, out); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the server ended with %v", err)
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

func statusOf(t *testing.T, url string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	a, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = a.Body.Close()
	return a.StatusCode
}

// There is one pod with one volume, and the service leads to it.
func TestServerKeepsItsDataOnOneVolume(t *testing.T) {
	r := decoded(t, "serve", keyed)
	s := r.set.Spec
	if *s.Replicas != 1 || s.ServiceName != r.service.Name || len(s.VolumeClaimTemplates) != 1 {
		t.Fatalf("%d pods of service %s with %d volumes", *s.Replicas, s.ServiceName, len(s.VolumeClaimTemplates))
	}
	claim, mount := s.VolumeClaimTemplates[0], s.Template.Spec.Containers[0].VolumeMounts[0]
	if size := claim.Spec.Resources.Requests[core.ResourceStorage]; claim.Name != mount.Name || size.String() != "3Gi" {
		t.Errorf("the volume is %+v, mounted as %+v", claim, mount)
	}
	if args := s.Template.Spec.Containers[0].Args; !slices.ContainsFunc(args, func(a string) bool { return strings.HasPrefix(a, "--data="+mount.MountPath+"/") }) {
		t.Errorf("the data is not on the volume: %v", args)
	}
	for _, selector := range []map[string]string{s.Selector.MatchLabels, r.service.Spec.Selector, r.budget.Spec.Selector.MatchLabels} {
		for k, v := range selector {
			if s.Template.Labels[k] != v {
				t.Errorf("no pod has %s=%s", k, v)
			}
		}
		if len(selector) != 2 {
			t.Errorf("a selector is %v", selector)
		}
	}
	if p := r.service.Spec.Ports[0]; p.Port != 8081 || p.TargetPort.StrVal != s.Template.Spec.Containers[0].Ports[0].Name {
		t.Errorf("the service's port is %+v", p)
	}
	for evictable, want := range map[bool]int32{true: 1, false: 0} {
		b := decoded(t, "serve", fmt.Sprintf("{image: x, wellKnownKey: true, evictable: %v}", evictable)).budget.Spec
		if *b.MaxUnavailable != intstr.FromInt32(want) {
			t.Errorf("evictable %v: the budget is %s", evictable, b.MaxUnavailable)
		}
	}
}

// The key is a reference to a secret, or the user has said that the public one will do.
func TestServersKeyIsAReference(t *testing.T) {
	pod := decoded(t, "serve", keyed).set.Spec.Template.Spec
	c := pod.Containers[0]
	if len(c.Env) != 1 || c.Env[0].Name != "CHANGEFEED_SERVE_KEY" || c.Env[0].Value != "" || c.Env[0].ValueFrom.SecretKeyRef.Name != "cosmos" || c.Env[0].ValueFrom.SecretKeyRef.Key != "key" {
		t.Errorf("the variables are %+v", c.Env)
	}
	for _, arg := range c.Args {
		if strings.HasPrefix(arg, "--key") || strings.HasPrefix(arg, "--read-only-key") || arg == "--allow-well-known-key" {
			t.Errorf("argument %s", arg)
		}
	}
	if s := c.SecurityContext; *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || !*pod.SecurityContext.RunAsNonRoot || *pod.AutomountServiceAccountToken {
		t.Errorf("the container may %+v", s)
	}
	if _, err := files(t, "serve", "{image: x}"); err == nil || !strings.Contains(err.Error(), "secret.name") {
		t.Errorf("without a key the chart answers %v", err)
	}
	public := decoded(t, "serve", "{image: x, wellKnownKey: true}").set.Spec.Template.Spec.Containers[0]
	if len(public.Env) != 0 || !slices.Contains(public.Args, "--allow-well-known-key") {
		t.Errorf("with the public key: %v, %v", public.Env, public.Args)
	}
}

// The server answers to the names by which clients in the cluster reach the service, whether it
// makes its certificate for them, gets one from a secret, or needs none.
func TestServerHasTheServicesNames(t *testing.T) {
	for _, tls := range []string{"{}", "{mode: 'off'}", "{secret: pair}"} {
		args := decoded(t, "serve", "{image: x, wellKnownKey: true, tls: "+tls+"}").set.Spec.Template.Spec.Containers[0].Args
		for _, host := range []string{"mailer", "mailer.shop", "mailer.shop.svc", "mailer.shop.svc.cluster.local"} {
			if !slices.Contains(args, "--host="+host) {
				t.Errorf("tls %s: the server has no name %s", tls, host)
			}
		}
	}
	pod := decoded(t, "serve", "{image: x, wellKnownKey: true, tls: {secret: pair}}").set.Spec.Template.Spec
	m := pod.Containers[0].VolumeMounts[1]
	if !slices.Contains(pod.Containers[0].Args, "--tls="+m.MountPath+"/tls.crt,"+m.MountPath+"/tls.key") || pod.Volumes[0].Name != m.Name || pod.Volumes[0].Secret.SecretName != "pair" {
		t.Errorf("the certificate is %+v, %+v, %v", pod.Volumes, m, pod.Containers[0].Args)
	}
}

package deploy

import (
	"context"
	"encoding/json"
	"flag"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var image = flag.Bool("deploy.image", false, "build the image's root file system by its Dockerfile's steps, and run it as another user (as root, on Linux)")

// instruction is a line of a Dockerfile.
type instruction struct{ word, rest string }

// dockerfile returns the instructions of a Dockerfile, by stages.
func dockerfile(t *testing.T, path string) (stages [][]instruction) {
	t.Helper()
	for line := range strings.Lines(strings.ReplaceAll(text(t, path), "\\\n", "")) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch {
		case word == "" || word[0] == '#':
		case word == "FROM":
			stages = append(stages, []instruction{{word, rest}})
		default:
			stages[len(stages)-1] = append(stages[len(stages)-1], instruction{word, rest})
		}
	}
	return stages
}

// last returns the rest of the last instruction with a word.
func last(t *testing.T, stage []instruction, word string) string {
	t.Helper()
	for _, i := range slices.Backward(stage) {
		if i.word == word {
			return i.rest
		}
	}
	t.Fatalf("the Dockerfile has no %s", word)
	return ""
}

// command returns what a container of the image runs.
func command(t *testing.T, stage []instruction) (args []string) {
	t.Helper()
	for _, word := range []string{"ENTRYPOINT", "CMD"} {
		var more []string
		if err := json.Unmarshal([]byte(last(t, stage, word)), &more); err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		args = append(args, more...)
	}
	return args
}

func TestImageRunsWithoutRightsAndSecrets(t *testing.T) {
	stages := dockerfile(t, "deploy/Dockerfile")
	if len(stages) != 2 || stages[1][0].rest != "scratch" {
		t.Fatalf("the stages are %v", stages)
	}
	if user := last(t, stages[1], "USER"); !regexp.MustCompile(`^[1-9]\d+:[1-9]\d+$`).MatchString(user) {
		t.Errorf("it runs as %s; Kubernetes can check only numbers", user)
	}
	_, help, _ := strings.Cut(text(t, "docs/command.md"), "\n## changefeed serve\n")
	for _, arg := range command(t, stages[1]) {
		if name, ok := strings.CutPrefix(arg, "--"); ok && !strings.Contains(help, "      --"+name+" ") {
			t.Errorf("changefeed serve has no flag --%s", name)
		}
		if strings.HasPrefix(arg, "--key") || strings.HasPrefix(arg, "--read-only-key") {
			t.Errorf("the key is an argument: %s", arg)
		}
	}
	var compose struct {
		Services map[string]struct {
			Build    struct{ Context, Dockerfile string }
			ReadOnly bool     `yaml:"read_only"`
			CapDrop  []string `yaml:"cap_drop"`
			Security []string `yaml:"security_opt"`
			Ports    []string
			Volumes  []string
			Grace    time.Duration `yaml:"stop_grace_period"`
		}
		Volumes map[string]struct{}
	}
	decode(t, "deploy/compose.yaml", &compose, true)
	s := compose.Services["cosmos"]
	if !s.ReadOnly || !slices.Contains(s.CapDrop, "ALL") || s.Grace <= drainOfServe {
		t.Errorf("the service is %+v", s)
	}
	for _, p := range s.Ports {
		host, port, _ := strings.Cut(p, ":")
		_, inner, _ := strings.Cut(port, ":")
		if host != "127.0.0.1" || !slices.Contains(strings.Fields(last(t, stages[1], "EXPOSE")), inner) {
			t.Errorf("port %s is open to other machines, or not exposed by the image", p)
		}
	}
	text(t, filepath.Join("deploy", s.Build.Context, s.Build.Dockerfile))
}

// There is no Docker here, so the test takes the Dockerfile's own steps: it runs the RUN
// lines of the first stage, copies what the second one copies, and runs the command in that
// directory as the image's user, with a root file system that is read-only but for the volume.
func TestImageServesAsAnotherUserOnAReadOnlyRoot(t *testing.T) {
	if !*image {
		t.Skip("needs -deploy.image (make image-check)")
	}
	if err := exec.CommandContext(t.Context(), "unshare", "--mount", "true").Run(); err != nil || os.Getuid() != 0 {
		t.Skipf("this user may not make mount namespaces (%v), so the image is not run", err)
	}
	stages := dockerfile(t, "deploy/Dockerfile")
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // the image's user must reach it
		t.Fatal(err)
	}
	out, root := filepath.Join(dir, "out"), filepath.Join(dir, "root")
	shell := func(script string, env ...string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", script)
		cmd.Dir, cmd.Env = "..", append(os.Environ(), env...)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, text)
		}
	}
	shell("mkdir -p " + out + " " + root)
	for _, i := range stages[0] {
		if i.word == "RUN" {
			shell(strings.ReplaceAll(i.rest, "/out/", out+"/"), "VERSION=v9.9.9")
		}
	}
	for _, i := range stages[1] {
		if i.word != "COPY" {
			continue
		}
		f := strings.Fields(i.rest)
		from, to := strings.Replace(f[len(f)-2], "/out/", out+"/", 1), root+f[len(f)-1]
		shell("mkdir -p " + filepath.Dir(to) + " && cp -r -p " + from + " " + to)
		if owner := regexp.MustCompile(`--chown=(\S+)`).FindStringSubmatch(i.rest); owner != nil {
			shell("chown -R " + owner[1] + " " + to)
		}
	}
	probe := serveImage(t, root, last(t, stages[1], "USER"), last(t, stages[1], "VOLUME"), command(t, stages[1]))
	for _, path := range []string{"/alive", "/ready", "/status"} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, probe+path, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		a, err := http.DefaultClient.Do(req)
		if err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("%s: %v, %v", path, a, err)
		}
		_ = a.Body.Close()
	}
	if owner := output(t, "stat", "-c", "%u:%g", filepath.Join(root, "data", "localhost.key")); strings.TrimSpace(owner) != last(t, stages[1], "USER") {
		t.Errorf("the server has run as %s", owner)
	}
	if version := output(t, filepath.Join(root, "changefeed"), "--version"); !strings.HasPrefix(version, "changefeed v9.9.9 ") {
		t.Errorf("--version prints %q", version)
	}
}

// serveImage runs the command with root as its root, which is read-only except for volume,
// until the test ends. It uses other ports, and returns the URL of the probes when the server
// is ready.
func serveImage(t *testing.T, root, user, volume string, args []string) string {
	t.Helper()
	probes := freeAddress(t)
	line := strings.NewReplacer("0.0.0.0:8081", "127.0.0.1:0", "0.0.0.0:8080", probes).Replace(strings.Join(args, " "))
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), "unshare", "--mount", "sh", "-euc",
		`mount --bind "$0" "$0"; mount --bind "$0$1" "$0$1"; mount -o remount,ro,bind "$0"; ! touch "$0/x" 2>/dev/null; exec chroot --userspec="$2" "$0" `+line,
		root, volume, user)
	serving(t, cmd)
	return "http://" + probes
}

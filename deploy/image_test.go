package deploy

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
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
		if word == "CMD" && !slices.ContainsFunc(stage, func(i instruction) bool { return i.word == word }) {
			continue
		}
		var more []string
		if err := json.Unmarshal([]byte(last(t, stage, word)), &more); err != nil {
			t.Fatalf("%s: %v", word, err)
		}
		args = append(args, more...)
	}
	return args
}

// rights reads a Dockerfile, and checks that its image has nothing but what it copies, runs as a
// user without rights, and has a port for probes.
func rights(t *testing.T, path string) (stages [][]instruction) {
	t.Helper()
	stages = dockerfile(t, path)
	if len(stages) != 2 || stages[1][0].rest != "scratch" {
		t.Fatalf("%s: the stages are %v", path, stages)
	}
	if user := last(t, stages[1], "USER"); !regexp.MustCompile(`^[1-9]\d+:[1-9]\d+$`).MatchString(user) {
		t.Errorf("%s: it runs as %s; Kubernetes can check only numbers", path, user)
	}
	if !slices.Contains(strings.Fields(last(t, stages[1], "EXPOSE")), "8080") {
		t.Errorf("%s: the port of the probes is not exposed", path)
	}
	return stages
}

// The template for a processor has no arguments, so its key comes from the environment, and the
// signal that ends it is the one for which the programs of the examples wait.
func TestProcessorsImageRunsWithoutRightsAndSecrets(t *testing.T) {
	stages := rights(t, "deploy/processor.Dockerfile")
	if args := command(t, stages[1]); len(args) != 1 {
		t.Errorf("it runs %v", args)
	}
	if s := last(t, stages[1], "STOPSIGNAL"); s != "SIGTERM" || !strings.Contains(text(t, "examples/host/main.go"), "syscall."+s) {
		t.Errorf("it is stopped by %s", s)
	}
	if m := regexp.MustCompile(`docker stop --time (\d+)`).FindStringSubmatch(text(t, "deploy/processor.Dockerfile")); m == nil {
		t.Error("it does not say how long it may take to stop")
	} else if given, err := time.ParseDuration(m[1] + "s"); err != nil || given <= seconds(t, "defaultDrain")+2*seconds(t, "defaultRequest") {
		t.Errorf("it says to wait %s, which is not enough", given)
	}
}

// Testcontainers' modules replace the CMD of an image, so the command is in its ENTRYPOINT.
func TestTestcontainersImageRunsWithoutRightsAndCMD(t *testing.T) {
	stage := rights(t, "deploy/testcontainers.Dockerfile")[1]
	if args := command(t, stage); !slices.Equal(args, []string{"/changefeed", "emulate"}) || strings.Contains(fmt.Sprint(stage), "{CMD") {
		t.Errorf("it runs %v: %v", args, stage)
	}
	if ports := last(t, stage, "EXPOSE"); ports != "8081 8080" {
		t.Errorf("it exposes %s", ports)
	}
}

func TestImageRunsWithoutRightsAndSecrets(t *testing.T) {
	stages := rights(t, "deploy/Dockerfile")
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

// imageRoot makes the root file system of a Dockerfile's image without Docker, by the file's own
// steps: it runs the RUN lines of the first stage in the directory context, and copies what the
// second stage copies. It skips the test if the user may not run the image.
func imageRoot(t *testing.T, stages [][]instruction, context string, env ...string) (root string) {
	t.Helper()
	if !*image {
		t.Skip("needs -deploy.image (make image-check)")
	}
	if err := exec.CommandContext(t.Context(), "unshare", "--mount", "true").Run(); err != nil || os.Getuid() != 0 {
		t.Skipf("this user may not make mount namespaces (%v), so the image is not run", err)
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { //nolint:gosec // the image's user must reach it
		t.Fatal(err)
	}
	out, root := filepath.Join(dir, "out"), filepath.Join(dir, "root")
	shell := func(script string) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", script)
		cmd.Dir, cmd.Env = context, append(os.Environ(), env...)
		if text, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, text)
		}
	}
	shell("mkdir -p " + out + " " + root)
	for _, i := range stages[0] {
		if i.word == "RUN" {
			shell(strings.ReplaceAll(i.rest, "/out/", out+"/"))
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
	return root
}

// inImage returns a command that runs in an image: with root as its root, which is read-only
// except for volume, and as user.
func inImage(t *testing.T, root, user, volume, line string) *exec.Cmd {
	t.Helper()
	return exec.CommandContext(context.WithoutCancel(t.Context()), "unshare", "--mount", "sh", "-euc",
		`mount --bind "$0" "$0"; [ -z "$1" ] || mount --bind "$0$1" "$0$1"; mount -o remount,ro,bind "$0"; ! touch "$0/x" 2>/dev/null; exec chroot --userspec="$2" "$0" `+line,
		root, volume, user)
}

func TestImageServesAsAnotherUserOnAReadOnlyRoot(t *testing.T) {
	stages := dockerfile(t, "deploy/Dockerfile")
	root := imageRoot(t, stages, "..", "VERSION=v9.9.9")
	user, health := last(t, stages[1], "USER"), freeAddress(t)
	line := strings.NewReplacer("0.0.0.0:8081", "127.0.0.1:0", "0.0.0.0:8080", health).Replace(strings.Join(command(t, stages[1]), " "))
	server := serving(t, inImage(t, root, user, last(t, stages[1], "VOLUME"), line))
	for _, path := range []string{"/alive", "/ready", "/status"} {
		if status := statusOf(t, "http://"+health+path); status != http.StatusOK {
			t.Errorf("%s has status %d", path, status)
		}
	}
	if owner := output(t, "stat", "-c", "%u:%g", filepath.Join(root, "data", "localhost.key")); strings.TrimSpace(owner) != user {
		t.Errorf("the server has run as %s", owner)
	}
	if version := output(t, filepath.Join(root, "changefeed"), "--version"); !strings.HasPrefix(version, "changefeed v9.9.9 ") {
		t.Errorf("--version prints %q", version)
	}
	t.Run("processor", func(t *testing.T) {
		processorsImage(t, server, filepath.Join(root, server["certificate"]))
	})
}

// processorsImage runs examples/host in the image of the template, over the server of the other
// image. The host must become ready, and release its leases after the image's signal.
func processorsImage(t *testing.T, server map[string]string, certificate string) {
	stages := dockerfile(t, "deploy/processor.Dockerfile")
	root := imageRoot(t, stages, "../examples", "PROGRAM=./host")
	trusted, err := os.ReadFile(certificate)
	if err != nil {
		t.Fatal(err)
	}
	orders := client(t, server, trusted)
	if _, err := orders.Make(t.Context(), "shop", "orders"); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "emulator.pem"), trusted, 0o644); err != nil { //nolint:gosec // the image's user reads it
		t.Fatal(err)
	}
	address := freeAddress(t)
	cmd := inImage(t, root, last(t, stages[1], "USER"), "", strings.Join(command(t, stages[1]), " "))
	cmd.Env = append(os.Environ(), "COSMOS_ENDPOINT="+server["endpoint"], "COSMOS_KEY="+server["key"], "SSL_CERT_FILE=/emulator.pem", "LISTEN="+address, "INSTANCE=image")
	var log strings.Builder
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); statusOf(t, "http://"+address+"/ready") != http.StatusOK; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			t.Fatalf("the host is not ready: %s", log.String())
		}
	}
	if status := output(t, "cat", fmt.Sprintf("/proc/%d/status", cmd.Process.Pid)); !strings.Contains(status, "\nUid:\t65532\t65532\t") {
		t.Errorf("the host runs as another user: %s", status)
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(log.String(), "lease released") {
		t.Errorf("the host ended with %v: %s", err, log.String())
	}
}

// A test runs in the directory of its package, so the path of the certificate is a whole one.
func TestActionsTrustTheCertificateInEveryPackage(t *testing.T) {
	const line = "SSL_CERT_FILE: "
	page := text(t, "deploy/README.md")
	if n := strings.Count(page, line); n == 0 || n != strings.Count(page, line+`"${{ github.workspace }}/emulator.pem"`) {
		t.Errorf("%d lines set %s, and not each within the workspace", n, line)
	}
}

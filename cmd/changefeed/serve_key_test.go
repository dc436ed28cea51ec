package main

import (
	"bufio"
	"encoding/base64"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// printedAtStart starts `changefeed serve`, and returns the output that it prints until
// "ready".
func printedAtStart(t *testing.T, env []string, args ...string) string {
	t.Helper()
	cmd := process(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--tls", "off"}, args...)...)
	cmd.Env = append(cmd.Env, env...)
	var errOut strings.Builder
	cmd.Stderr = &errOut
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		text.WriteString(lines.Text() + "\n")
		if lines.Text() == "ready" {
			break
		}
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, &errOut)
	}
	return text.String() + errOut.String()
}

// `changefeed serve` must not print a key that it was given. The output of a service goes
// to a journal, which other users may read.
func TestServePrintsNoKeyThatItWasGiven(t *testing.T) {
	key := base64.StdEncoding.EncodeToString([]byte("a key that nobody prints"))
	readOnly := base64.StdEncoding.EncodeToString([]byte("another one, for reading"))
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(key[:8]+"\n"+key[8:]+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		env  []string
		args []string
		want string // the word for the key in the line to paste
	}{
		{"file", nil, []string{"--key-file", file, "--read-only-key", readOnly}, `"$(tr -d '\n' < ` + file + `)"`},
		{"variable", []string{"CHANGEFEED_SERVE_KEY=" + key, "CHANGEFEED_SERVE_READ_ONLY_KEY=" + readOnly}, nil, `"${CHANGEFEED_SERVE_KEY:?}"`},
		{"flag", nil, []string{"--key", key, "--read-only-key", readOnly}, "KEY"},
		{"flag and file", nil, []string{"--key", key, "--key-file", file, "--read-only-key", readOnly}, "KEY"},
	} {
		text := printedAtStart(t, c.env, c.args...)
		if strings.Contains(text, key) || strings.Contains(text, readOnly) ||
			!strings.Contains(text, " COSMOS_KEY="+c.want+"\n") || !strings.Contains(text, "--print-key") || !strings.Contains(text, "ready\n") {
			t.Errorf("%s: %s", c.name, text)
		}
		// The line must work when it is pasted.
		_, line, _ := strings.Cut(text, "\nexport ")
		line, _, _ = strings.Cut(line, "\n")
		shell := exec.CommandContext(t.Context(), "sh", "-c", "export "+line+`; printf %s "$COSMOS_KEY"`)
		shell.Env = append(os.Environ(), c.env...)
		if got, err := shell.Output(); err != nil || c.want != "KEY" && string(got) != key {
			t.Errorf("%s: %s sets %q, %v", c.name, line, got, err)
		}
		if text := printedAtStart(t, c.env, append(c.args, "--print-key")...); !strings.Contains(text, " COSMOS_KEY="+key) || !strings.Contains(text, readOnly) {
			t.Errorf("%s, --print-key: %s", c.name, text)
		}
	}
	if text := printedAtStart(t, nil); !strings.Contains(text, " COSMOS_KEY=C2y6yDjf5") || strings.Contains(text, "--print-key") {
		t.Errorf("the well-known key is no secret: %s", text)
	}
}

// A key file that other users can read is no secret. The server and its clients say so.
func TestAKeyFileThatOthersCanReadGetsAWarning(t *testing.T) {
	key := base64.StdEncoding.EncodeToString([]byte("a key that nobody prints"))
	for mode, warned := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o644: true} {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte(key), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if text := printedAtStart(t, nil, "--key-file", file); strings.Contains(text, "other users can read the key in "+file) != warned {
			t.Errorf("mode %#o: %s; want a warning: %t", mode, text, warned)
		}
		// So does each command that uses such a file, once.
		a := newAccount(t)
		write(t, file+".account", a.key)
		if err := os.Chmod(file+".account", mode); err != nil {
			t.Fatal(err)
		}
		want := 0
		if warned {
			want = 1
		}
		t.Setenv("COSMOS_ENDPOINT", a.endpoint)
		for _, args := range [][]string{
			{"tail", "--key-file", file + ".account"},
			{"leases", "ls", "--key-file", file + ".account"},
			{"partitions", "ls", "--key-file", file + ".account"},
			{"fault", "ls", "--key-file", file + ".account"},
			{"leases", "ls", "--lease-endpoint", a.endpoint, "--lease-key-file", file + ".account"},
			{"tail"},
			{"replicate"},
		} {
			if len(args) == 1 {
				t.Setenv("COSMOS_KEY_FILE", file+".account")
			}
			switch args[0] {
			case "replicate":
				args = append(args, "--from", "shop/orders", "--to", "shop/orders")
			case "fault":
			default:
				args = append(args, "--database", "shop", "--container", "orders")
			}
			if _, _, errOut := command(t, args...); strings.Count(errOut, "warning: other users can read the key in "+file+".account") != want {
				t.Errorf("mode %#o, %v: %s; want %d warnings", mode, args, errOut, want)
			}
		}
		t.Setenv("COSMOS_KEY_FILE", "")
	}
}

// An invalid key must be reported under the name of the file or the variable that holds it,
// because the user gave no --key.
func TestInvalidKeyIsReportedUnderItsOwnName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte("no base64!"), 0o600); err != nil {
		t.Fatal(err)
	}
	for want, c := range map[string]struct{ env, args []string }{
		"--key-file " + file + " is invalid":           {nil, []string{"--key-file", file}},
		"--read-only-key-file " + file + " is invalid": {nil, []string{"--read-only-key-file", file}},
		"CHANGEFEED_SERVE_KEY is invalid":              {[]string{"CHANGEFEED_SERVE_KEY=no base64!"}, nil},
		"CHANGEFEED_SERVE_READ_ONLY_KEY is invalid":    {[]string{"CHANGEFEED_SERVE_READ_ONLY_KEY=no base64!"}, nil},
		"--key is invalid":                             {nil, []string{"--key", "no base64!"}},
	} {
		cmd := process(t, append([]string{"serve", "--listen", "127.0.0.1:0", "--tls", "off"}, c.args...)...)
		cmd.Env = append(cmd.Env, c.env...)
		out, err := cmd.CombinedOutput()
		if err == nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "no base64!") {
			t.Errorf("%v: %v, %s; want %q, without the key", c, err, out, want)
		}
	}
}

package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/internal/wire"
	api "github.com/changefeed-go/changefeed/server"
)

// command runs the changefeed command with these arguments in this process.
func command(t *testing.T, args ...string) (code int, out, errOut string) {
	t.Helper()
	var o, e bytes.Buffer
	code = run(t.Context(), args, strings.NewReader(""), &o, &e)
	return code, o.String(), e.String()
}

func TestWrongCallsAreRefusedByNameWithStatusTwo(t *testing.T) {
	tail := []string{"tail", "--data", "d", "--database", "b", "--container", "c"}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"nonsense"}, `unknown command "nonsense"; the commands are demo, fault, lag, leases, letters, partitions, replicate, restore, serve, tail, version`},
		{[]string{"replica"}, `unknown command "replica" (did you mean replicate?)`},
		{[]string{"leases", "list"}, "unknown command \"list\" of `changefeed leases`"},
		{[]string{"help", "nosuch"}, `unknown command "nosuch"; the commands are demo, fault, lag`},
		{[]string{"help", "leases", "nosuch"}, "unknown command \"nosuch\" of `changefeed leases`; the commands are check"},
		{[]string{"help", "tail", "nosuch"}, "unknown command \"nosuch\": `changefeed tail` has no subcommands"},
		{[]string{"completion", "foo"}, "unknown command \"foo\" of `changefeed completion`; the commands are bash, fish, powershell, zsh"},
		{[]string{"completion", "bash", "foo"}, `unexpected argument "foo"`},
		{[]string{"leases", "import"}, "the file is missing, as in `changefeed leases import leases.json`"},
		{[]string{"leases", "import", "a", "b"}, `unexpected argument "b"`},
		{[]string{"leases", "check", "--start", "zz"}, `--start is "zz": it must be beginning, marker, or a time such as`},
		{[]string{"leases", "check", "--start", "2999-01-01"}, `--start is "2999-01-01": it must not be in the future`},
		{[]string{"leases", "release", "--timeout", "zz"}, `--timeout is "zz": it must be a duration with its unit`},
		{[]string{"tail", "--interval", "5"}, `--interval is "5": it must be a duration with its unit, as in 5s`},
		{[]string{"tail", "--follow=maybe"}, `--follow is "maybe": it must be true or false`},
		{[]string{"tail", "--from"}, "--from needs a value"},
		{[]string{"tail", "-x"}, "unknown flag -x"},
		{[]string{"demo", "surplus"}, "surplus"},
		{[]string{"demo", "--nonsense"}, "--nonsense"},
		{[]string{"demo", "--records", "0"}, "--records is 0"},
		{[]string{"demo", "--records", "many"}, "many"},
		{[]string{"demo", "--hosts", "0"}, "--hosts is 0"},
		{[]string{"demo", "--hosts", "99"}, "--hosts is 99"},
		{[]string{"demo", "--key", "k"}, "--input, which is missing"},
		{[]string{"demo", "--input", "x"}, "--key is missing"},
		{[]string{"tail", "--database", "b", "--container", "c"}, "or --data DIR"},
		{[]string{"tail", "--data", "d"}, "--database is missing"},
		{append(tail, "--interval", "0s"), "--interval is"},
		{append(tail, "--position", "."), "--position"},
		{append(tail, "--endpoint", "https://a.test"), "--data and --endpoint exclude each other"},
		{[]string{"tail", "--data", "d", "--database", "b"}, "--container is missing"},
		{append(tail, "--mode", "some"), `--mode is "some"`},
		{append(tail, "--from", "yesterday"), `--from is "yesterday"`},
		{append(tail, "--from", "after:-1"), "an LSN must be a whole number"},
		{append(tail, "--from", "2999-01-01"), "it must not be in the future"},
		{append(tail, "--mode", "avad"), "after:0 prints all retained changes"},
		{append(tail, "--mode", "avad", "--from", "2020-01-01"), "after:0 prints all retained changes"},
		{[]string{"version", "surplus"}, "surplus"},
		{[]string{"serve", "surplus"}, "surplus"},
		{[]string{"serve", "--memory", "--data", "d"}, "exclude each other"},
		{[]string{"serve", "--data", ""}, "--data is empty"},
		{[]string{"serve", "--memory", "--data="}, "--data is empty"},
		{[]string{"demo", "--data", ""}, "--data is empty"},
		{[]string{"serve", "--listen", "8081"}, "host:port"},
		{[]string{"serve", "--tls", "on"}, `--tls is "on"`},
		{[]string{"serve", "--tls", "no.crt,no.key", "--listen", "127.0.0.1:0"}, "no.crt"},
		{[]string{"serve", "--key", "?"}, "--key is invalid"},
		{[]string{"serve", "--key", "YQ==", "--read-only-key", "YQ=="}, "also a key that may write"},
		{[]string{"serve", "--read-only-key", "?"}, "--read-only-key is invalid"},
		{[]string{"serve", "--partitions", "0"}, "--partitions is 0"},
		{[]string{"serve", "--cache", "1"}, "--cache is 1"},
		{[]string{"serve", "--public-endpoint", "shop.test"}, "https://host:port/"},
		{[]string{"serve", "--metrics", "9081"}, "--metrics is"},
		{[]string{"serve", "--drain", "-1s"}, "--drain"},
		{[]string{"serve", "--log-level", "loud"}, `--log-level is "loud"`},
		{[]string{"partitions", "ls"}, "--database is missing"},
		{[]string{"partitions", "ls", "--database", "d"}, "--container is missing"},
		{[]string{"partitions", "split", "--database", "d", "--container", "c"}, "the partition's id is missing, as in `changefeed partitions split 0`"},
		{[]string{"partitions", "merge"}, "the partition's id is missing"},
		{[]string{"partitions", "merge", "1", "2", "3"}, "`changefeed partitions merge ID [NEIGHBOUR] [flags]`"},
		{[]string{"partitions", "split", "0", "--at", "zz", "--database", "d", "--container", "c"}, `--at is "zz": it must be an effective partition key in hexadecimal`},
		{[]string{"serve", "--listen", "127.0.0.1:99999"}, `--listen is "127.0.0.1:99999": its port must be a number`},
		{[]string{"serve", "--listen", "127.0.0.1:http-x"}, `--listen is "127.0.0.1:http-x": its port must be a number`},
		{[]string{"serve", "--listen", "192.0.2.1:0"}, "no interface of this machine has the address"},
		{[]string{"serve", "--listen", "127.0.0.1:0", "--metrics", "127.0.0.1:99999"}, `--metrics is "127.0.0.1:99999": its port must be a number`},
		{[]string{"partitions", "ls", "--database", "d", "--container", "c", "--endpoint", "localhost"}, "--endpoint is"},
		{[]string{"partitions", "ls", "--database", "d", "--container", "c", "--endpoint", "https://127.0.0.1:8081/", "--key", "?"}, "--key is invalid"},
		{[]string{"partitions", "ls", "--database", "d", "--container", "c", "--endpoint", "https://127.0.0.1:8081/", "--certificate", "no.crt"}, "no.crt"},
	} {
		code, out, errOut := command(t, c.args...)
		if code != exitUsage || !strings.Contains(errOut, c.want) || out != "" {
			t.Errorf("%v: status %d, %q on the error output, %q on the other; want %q", c.args, code, errOut, out, c.want)
		}
		if !strings.Contains(errOut, "--help") {
			t.Errorf("%v: the error does not name --help: %q", c.args, errOut)
		}
	}
}

func TestHelpIsNotAnError(t *testing.T) {
	for _, args := range [][]string{nil, {"--help"}, {"demo", "--help"}, {"tail", "-h"}, {"help"}, {"help", "tail"}, {"help", "leases", "ls"}, {"completion"}} {
		code, out, errOut := command(t, args...)
		if code != exitOK || !strings.Contains(out, "Usage:") || errOut != "" {
			t.Errorf("%v: status %d, output %q, error output %q", args, code, out, errOut)
		}
	}
}

// A narrow terminal would break lines within words and columns.
func TestHelpFitsEightyColumns(t *testing.T) {
	var check func(c *cobra.Command)
	check = func(c *cobra.Command) {
		for _, sub := range c.Commands() {
			check(sub)
		}
		if c.Name() == "completion" || c.HasParent() && c.Parent().Name() == "completion" {
			return // of cobra
		}
		path := strings.Fields(c.CommandPath())[1:]
		_, out, _ := command(t, append(path, "--help")...)
		for line := range strings.SplitSeq(out, "\n") {
			if len([]rune(line)) > helpWidth {
				t.Errorf("%v: %q", path, line)
			}
		}
	}
	check(rootCommand())
}

func TestABadInputFailsWithStatusOneAndNamesTheRecord(t *testing.T) {
	in := t.TempDir() + "/in.json"
	write(t, in, `[{"k":1},{"j":1}]`)
	code, _, errOut := command(t, "demo", "--input", in, "--key", "k")
	if code != exitFailed || !strings.Contains(errOut, in) || !strings.Contains(errOut, `record 2 has no field "k"`) {
		t.Errorf("status %d: %s", code, errOut)
	}
}

func TestVersionPrintsTheReleaseAndTheCommit(t *testing.T) {
	code, out, _ := command(t, "version")
	if code != exitOK || !strings.HasPrefix(out, "changefeed v0.1.0") {
		t.Errorf("status %d: %s", code, out)
	}
	if code, same, errOut := command(t, "--version"); code != exitOK || same != out || errOut != "" {
		t.Errorf("--version: status %d: %s%s; want %s", code, same, errOut, out)
	}
	for _, c := range []struct {
		info *debug.BuildInfo
		want string
	}{
		{nil, "changefeed v0.1.0 go"},
		{&debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "changefeed v0.1.0 go"},
		{&debug.BuildInfo{Main: debug.Module{Version: "v0.1.7"}}, "changefeed v0.1.7 go"},
		{&debug.BuildInfo{Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"},
		}}, "changefeed v0.1.0 0123456789ab (modified) go"},
		{&debug.BuildInfo{Settings: []debug.BuildSetting{
			{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-11-28T18:40:48Z"},
		}}, "changefeed v0.1.0 0123456789ab 2026-11-28T18:40:48Z go"},
	} {
		if got := versionOf(c.info); !strings.HasPrefix(got, c.want) {
			t.Errorf("got %q, want it to begin with %q", got, c.want)
		}
	}
}

// A release names its tag and its commit, also where the build itself recorded others or
// none.
func TestReleasesVersionComesFromItsTag(t *testing.T) {
	t.Cleanup(func() { buildVersion, buildCommit, buildDate = "", "", "" })
	buildVersion, buildCommit, buildDate = "v1.2.3", "fedcba9876543210", "2026-12-01T08:00:00Z"
	for _, info := range []*debug.BuildInfo{nil, {
		Main:     debug.Module{Version: "v0.1.7"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.time", Value: "2026-11-28T18:40:48Z"}},
	}} {
		if got := versionOf(info); !strings.HasPrefix(got, "changefeed v1.2.3 fedcba987654 2026-12-01T08:00:00Z go") {
			t.Errorf("got %q", got)
		}
	}
}

// readyOutput is the output of a server, which it stops as soon as it is ready.
type readyOutput struct {
	text strings.Builder
	stop func()
}

func (o *readyOutput) Write(text []byte) (int, error) {
	if strings.Contains(string(text), "\nready\n") {
		o.stop()
	}
	return o.text.Write(text)
}

// Both servers say which build they are, and not which release this tree was meant for.
func TestServersPrintTheVersionOfTheBuild(t *testing.T) {
	t.Cleanup(func() { buildVersion = "" })
	buildVersion = "v1.2.3"
	for _, args := range [][]string{
		{"serve", "--listen", "127.0.0.1:0", "--tls", "off"},
		{"emulate", "--address", "127.0.0.1", "--port", "0", "--health-port", "0", "--protocol", "http"},
	} {
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		out := &readyOutput{stop: stop}
		if code := run(ctx, args, strings.NewReader(""), out, io.Discard); code != exitOK || !strings.HasPrefix(out.text.String(), "changefeed v1.2.3 serves ") {
			t.Errorf("%s: status %d: %s", args[0], code, out.text.String())
		}
		stop()
	}
	if code, out, errOut := command(t, "emulate", "--version"); code != exitOK || out != versionLine() {
		t.Errorf("emulate --version: status %d: %s%s", code, out, errOut)
	}
}

// faultNames returns the names that a server lists if a fault has an unknown operation.
func faultNames(t *testing.T) []string {
	t.Helper()
	_, err := changefeedtest.NewServer(t).Faults().Add(api.Fault{Operation: "nothing", Drop: true})
	_, list, _ := strings.Cut(err.Error(), "the operations are ")
	return slices.Sorted(slices.Values(strings.Split(list, ", ")))
}

func TestShellsOfferTheValuesOfFlags(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"leases", "ls", "--dialect", ""}, "dotnet\njava-handle-changes\njava-latest-version\n:4\n"},
		{[]string{"lag", "--dialect", ""}, "dotnet\njava-handle-changes\njava-latest-version\n:4\n"},
		{[]string{"leases", "convert", "--to", ""}, "dotnet\njava-handle-changes\njava-latest-version\n:4\n"},
		{[]string{"leases", "reset", "--to", ""}, "beginning\nnow\nafter:0\n:4\n"},
		{[]string{"replicate", "--to", ""}, ":4\n"},
		{[]string{"fault", "set", "--operation", ""}, strings.Join(faultNames(t), "\n") + "\n:4\n"},
		{[]string{"tail", "--mode", ""}, "latest\navad\n:4\n"},
		{[]string{"tail", "--key", ""}, ":4\n"},
		{[]string{"tail", "--key-file", ""}, ":0\n"},
		{[]string{"tail", "--data", ""}, ":16\n"},
	} {
		code, out, errOut := command(t, append([]string{"__complete"}, c.args...)...)
		if code != exitOK || out != c.want {
			t.Errorf("%v: status %d: %q, want %q; %s", c.args, code, out, c.want, errOut)
		}
	}
}

// The port is that of some other web server, which answers every request with a page. It must
// be named by every command, also by one that only looks at the status, and with the flag to
// check.
func TestAnotherWebServerIsNotTakenForAChangefeedServer(t *testing.T) {
	for _, status := range []int{http.StatusOK, http.StatusNotFound} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte("<html>hello</html>"))
		}))
		defer other.Close()
		at := []string{"--endpoint", other.URL, "--key", wire.EmulatorKey}
		for _, args := range [][]string{
			{"partitions", "ls", "--database", "d", "--container", "c"},
			{"partitions", "split", "0", "--database", "d", "--container", "c"},
			{"fault", "ls"},
			{"fault", "clear"},
			{"fault", "throttle"},
			{"fault", "set", "--drop"},
			{"lag", "--database", "d", "--container", "c"},
			{"leases", "ls", "--database", "d", "--container", "c"},
		} {
			code, out, errOut := command(t, append(args, at...)...)
			if code != exitFailed || out != "" || !strings.Contains(errOut, "is not an Azure Cosmos DB endpoint") || !strings.HasSuffix(errOut, "; check --endpoint or COSMOS_ENDPOINT\n") {
				t.Errorf("%v, status %d: %d, %s%s", args, status, code, out, errOut)
			}
		}
	}
}

// A server that answers with JSON of its own may be an account, but not a changefeed server.
func TestAServerWithoutAdminAPIIsNamedWithTheFlagToCheck(t *testing.T) {
	for status, body := range map[int]string{http.StatusOK: `{"partitions":"none","faults":"none"}`, http.StatusNotFound: `{}`} {
		other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		defer other.Close()
		for _, args := range [][]string{{"partitions", "ls", "--database", "d", "--container", "c"}, {"fault", "ls"}} {
			code, out, errOut := command(t, append(args, "--endpoint", other.URL, "--key", wire.EmulatorKey)...)
			if code != exitFailed || out != "" || !strings.Contains(errOut, "is it a changefeed server?") || !strings.HasSuffix(errOut, "; check --endpoint or COSMOS_ENDPOINT\n") {
				t.Errorf("%v, status %d: %d, %s%s", args, status, code, out, errOut)
			}
		}
	}
}

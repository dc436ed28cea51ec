package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/changefeed-go/changefeed/changefeedtest"
	"github.com/changefeed-go/changefeed/cmd/changefeed/internal/admin"
	"github.com/changefeed-go/changefeed/store"
	"github.com/changefeed-go/changefeed/storetype"
)

func TestFaultsOfARunningServerAreSetListedAndCleared(t *testing.T) {
	dir := t.TempDir()
	checkStore(t, dir, func(db *store.DB) {
		changefeedtest.NewContainer(t, db, "shop", storetype.ContainerProperties{ID: "orders", KeyPaths: []string{"/pk"}})
	})
	endpoint, end := served(t, "--tls", "off", "--data", dir)
	defer end(syscall.SIGTERM)
	call := func(wantCode int, args ...string) string {
		t.Helper()
		code, out, errOut := command(t, append(args, "--endpoint", endpoint)...)
		if code != wantCode {
			t.Errorf("%v: status %d, %s%s", args, code, out, errOut)
		}
		return out + errOut
	}
	has := func(out string, wants ...string) {
		t.Helper()
		for _, want := range wants {
			if !strings.Contains(out, want) {
				t.Errorf("it prints %q, want %q", out, want)
			}
		}
	}
	orders := []string{"--database", "shop", "--container", "orders"}
	in := func(args ...string) []string { return append(args, orders...) }

	has(call(exitOK, in("fault", "throttle", "--count", "2", "--retry-after", "1ms")...), "1      0     all in shop/orders, 2 times  429/3200, retry after 1ms\n")
	has(call(exitOK, "fault", "set", "--operation", "create document", "--drop", "--after", "--range", "-80"), "create document, keys -80  carried out, no answer\n")
	has(call(exitOK, "fault", "set", "--operation", "refuse a trigger", "--drop", "--count", "1"), "refuse a trigger, 1 time  no answer\n")
	call(exitOK, "fault", "clear", "3")
	call(exitOK, in("tail")...) // it repeats the throttled requests
	var listed admin.Faults
	text := call(exitOK, "fault", "ls", "--json")
	if strings.Contains(text, "probability") { // docs/json.md: it is absent if it is 1
		t.Error(text)
	}
	if err := json.Unmarshal([]byte(text), &listed); err != nil || len(listed.Faults) != 2 || listed.Faults[0].Hits != 2 || listed.Faults[1].Hits != 0 {
		t.Errorf("%+v, %v", listed, err)
	}

	has(call(exitOK, in("fault", "freeze", "0")...), "partition 0 is frozen\n")
	has(call(exitOK, "fault", "ls"), "FAULT", "frozen: shop/orders, keys -FF\n")
	has(call(exitOK, in("partitions", "ls")...), "frozen")
	has(call(exitOK, in("fault", "thaw", "0")...), "partition 0 is not frozen any more\n")
	has(call(exitOK, in("fault", "thaw", "0")...), "partition 0 was not frozen\n")
	has(call(exitFailed, in("fault", "freeze", "7")...), `there is no partition "7" now`)
	has(call(exitFailed, "fault", "freeze", "0", "--database", "shop", "--container", "nothing"), "shop/nothing")

	call(exitOK, "fault", "clear", "1")
	if out := call(exitOK, "fault", "ls"); strings.Contains(out, "429") || !strings.Contains(out, "create document") {
		t.Errorf("after the clear of one: %s", out)
	}
	has(call(exitFailed, "fault", "clear", "1"), `there is no fault "1"`)
	call(exitOK, in("fault", "freeze", "0")...)
	for _, args := range [][]string{{"clear"}, {"ls"}} {
		has(call(exitOK, append([]string{"fault"}, args...)...), "no request fails on purpose\n")
	}
	if out := call(exitOK, in("partitions", "ls")...); strings.Contains(out, "frozen") {
		t.Errorf("after the clear: %s", out)
	}

	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"set"}, exitUsage, "the effect is missing"},
		{[]string{"set", "--status", "200"}, exitUsage, "--status is 200: it must be 400 to 599"},
		{[]string{"set", "--drop", "--operation", "nothing"}, exitUsage, `--operation is "nothing": it must be one of ` + strings.Join(admin.Operations(), ", ")},
		{[]string{"set", "--drop", "--status", "500"}, exitUsage, "--status and --drop exclude each other"},
		{[]string{"set", "--drop", "--substatus", "3"}, exitUsage, "--substatus needs --status"},
		{[]string{"set", "--status", "500", "--substatus", "-3"}, exitUsage, "--substatus is -3"},
		{[]string{"set", "--drop", "--retry-after", "1s"}, exitUsage, "--retry-after needs --status"},
		{[]string{"throttle", "--retry-after", "-1s"}, exitUsage, "--retry-after is -1s"},
		{[]string{"set", "--delay", "1s", "--after"}, exitUsage, "--after needs --status or --drop"},
		{[]string{"set", "--delay", "-1s"}, exitUsage, "--delay is -1s"},
		{[]string{"set", "--delay", "61m"}, exitUsage, "--delay is 1h1m0s"},
		{[]string{"set", "--drop", "--skip", "-1"}, exitUsage, "--skip is -1"},
		{[]string{"throttle", "--count", "-1"}, exitUsage, "--count is -1"},
		{in("set", "--drop", "--partition", "999"), exitFailed, `--partition is "999": there is no such partition now; the live partitions are 0`},
		{[]string{"set", "--drop", "--probability", "0"}, exitUsage, "--probability is 0"},
		{[]string{"set", "--drop", "--range", "80"}, exitUsage, "--range is"},
		{[]string{"set", "--drop", "--key-value", "ada"}, exitUsage, "--key-value is"},
		{[]string{"set", "--drop", "--container", "orders"}, exitUsage, "--container needs --database"},
		{[]string{"set", "--drop", "--partition", "0", "--database", "shop"}, exitUsage, "--partition needs --database and --container"},
		{[]string{"freeze", "0"}, exitUsage, "--database is missing"},
	} {
		has(call(c.code, append([]string{"fault"}, c.args...)...), c.want)
	}
}

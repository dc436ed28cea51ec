package connect

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/changefeed-go/changefeed/internal/wire"
)

var (
	keyA = base64.StdEncoding.EncodeToString([]byte("the key of account a"))
	keyB = base64.StdEncoding.EncodeToString([]byte("the key of account b"))
)

// settings returns the Settings of an account whose flags and variables have prefix. args
// is the command line, and env contains all environment variables.
func settings(t *testing.T, prefix string, env map[string]string, args ...string) (Settings, error) {
	t.Helper()
	a := NewAccount(prefix)
	a.getenv = func(name string) string { return env[name] }
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	a.Add(flags)
	a.AddData(flags)
	if err := flags.Parse(args); err != nil {
		t.Fatal(err)
	}
	return a.Settings(io.Discard)
}

func TestAFlagWinsOverTheEnvironmentAndAKeyMayComeFromEither(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(keyB+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const a, b = "https://a.documents.azure.com:443/", "https://b.documents.azure.com"
	connection := "AccountEndpoint=" + b + ";AccountKey=" + keyB + ";"
	for _, c := range []struct {
		name string
		env  map[string]string
		args []string
		want Settings
	}{
		{"flags", nil, []string{"--endpoint", a, "--key", keyA}, Settings{Endpoint: a, Key: keyA}},
		{"environment", map[string]string{"COSMOS_ENDPOINT": a, "COSMOS_KEY": keyA + "\n"}, nil, Settings{Endpoint: a, Key: keyA}},
		{"a key of the environment for an endpoint of the flags", map[string]string{"COSMOS_KEY": keyA}, []string{"--endpoint", a}, Settings{Endpoint: a, Key: keyA}},
		{"key file", nil, []string{"--endpoint", a, "--key-file", file}, Settings{Endpoint: a, Key: keyB}},
		{"key file before the environment's key", map[string]string{"COSMOS_KEY": keyA}, []string{"--endpoint", a, "--key-file", file}, Settings{Endpoint: a, Key: keyB}},
		{"key file of the environment", map[string]string{"COSMOS_KEY_FILE": file, "COSMOS_ENDPOINT": a}, nil, Settings{Endpoint: a, Key: keyB}},
		{"connection string", nil, []string{"--connection-string", connection}, Settings{Endpoint: b, Key: keyB}},
		{"connection string in another order", nil, []string{"--connection-string", "AccountKey=" + keyB + ";AccountEndpoint=" + b}, Settings{Endpoint: b, Key: keyB}},
		{"connection string before the environment", map[string]string{"COSMOS_ENDPOINT": a, "COSMOS_KEY": keyA}, []string{"--connection-string", connection}, Settings{Endpoint: b, Key: keyB}},
		{"connection string of the environment", map[string]string{"COSMOS_CONNECTION_STRING": connection}, nil, Settings{Endpoint: b, Key: keyB}},
		{"an endpoint is no account of the environment's connection string", map[string]string{"COSMOS_CONNECTION_STRING": connection}, []string{"--endpoint", a}, Settings{Endpoint: a}},
		{"variables that agree", map[string]string{"COSMOS_CONNECTION_STRING": connection, "COSMOS_ENDPOINT": b + ":443/", "COSMOS_KEY": keyB}, nil, Settings{Endpoint: b, Key: keyB}},
		{"a connection string before variables of another account", map[string]string{"COSMOS_CONNECTION_STRING": "x", "COSMOS_ENDPOINT": a, "COSMOS_KEY": keyA}, []string{"--connection-string", connection}, Settings{Endpoint: b, Key: keyB}},
		{"a key before that of the environment's connection string", map[string]string{"COSMOS_CONNECTION_STRING": connection}, []string{"--key", keyA}, Settings{Endpoint: b, Key: keyA}},
		{"a key and a file of the same", map[string]string{"COSMOS_ENDPOINT": a, "COSMOS_KEY": keyB, "COSMOS_KEY_FILE": file}, nil, Settings{Endpoint: a, Key: keyB}},
		{"no key: Microsoft Entra ID", nil, []string{"--endpoint", a}, Settings{Endpoint: a}},
		{"no key on this machine: the emulators'", nil, []string{"--endpoint", "http://127.0.0.1:8081/"}, Settings{Endpoint: "http://127.0.0.1:8081/", Key: wire.EmulatorKey}},
		{"a store", map[string]string{"COSMOS_ENDPOINT": a, "COSMOS_KEY": keyA}, []string{"--data", "dir"}, Settings{Data: "dir"}},
		{"certificate", map[string]string{"COSMOS_CERTIFICATE": "x.crt"}, []string{"--endpoint", a}, Settings{Endpoint: a, Certificate: "x.crt"}},
	} {
		got, err := settings(t, "", c.env, c.args...)
		if err != nil || got != c.want {
			t.Errorf("%s: %#v %v %v, want %v", c.name, got, got.Key == c.want.Key, err, c.want)
		}
	}
	got, err := settings(t, "lease-", map[string]string{"COSMOS_LEASE_KEY": keyA, "COSMOS_KEY": keyB}, "--lease-endpoint", a)
	if err != nil || got != (Settings{Endpoint: a, Key: keyA}) {
		t.Errorf("the lease account: %v, %v", got, err)
	}
}

// A side of a copy whose URL is that of COSMOS_ENDPOINT once did without COSMOS_KEY.
func TestAnAccountUsesTheCredentialsOfTheSameAccountUnderAnotherName(t *testing.T) {
	const a, b = "https://a.documents.azure.com:443/", "https://b.documents.azure.com"
	env := map[string]string{"COSMOS_ENDPOINT": a, "COSMOS_KEY": keyA, "COSMOS_CERTIFICATE": "a.crt"}
	for _, c := range []struct {
		more map[string]string
		args []string
		want Settings
		keys string
	}{
		{nil, []string{"--from-endpoint", "https://A.documents.azure.com"}, Settings{Endpoint: "https://A.documents.azure.com", Key: keyA, Certificate: "a.crt"}, "COSMOS_KEY or COSMOS_KEY_FILE"},
		{nil, []string{"--from-endpoint", a, "--from-certificate", "b.crt"}, Settings{Endpoint: a, Key: keyA, Certificate: "b.crt"}, "COSMOS_KEY or COSMOS_KEY_FILE"},
		{nil, []string{"--from-endpoint", a, "--from-key", keyB}, Settings{Endpoint: a, Key: keyB}, "--from-key-file, --from-key or COSMOS_FROM_KEY"},
		{map[string]string{"COSMOS_FROM_KEY": keyB}, []string{"--from-endpoint", a}, Settings{Endpoint: a, Key: keyB}, "--from-key-file, --from-key or COSMOS_FROM_KEY"},
		{nil, []string{"--from-endpoint", b}, Settings{Endpoint: b}, "--from-key-file, --from-key or COSMOS_FROM_KEY"},
		{map[string]string{"COSMOS_KEY": "?"}, []string{"--from-endpoint", b}, Settings{Endpoint: b}, "--from-key-file, --from-key or COSMOS_FROM_KEY"},
		{map[string]string{"COSMOS_KEY": "?"}, []string{"--from-endpoint", a}, Settings{}, ""},
	} {
		getenv := func(name string) string { return cmp.Or(c.more[name], env[name]) }
		from, environment := NewAccount("from-"), NewAccount("")
		from.getenv, environment.getenv = getenv, getenv
		from.Like(environment)
		flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
		from.Add(flags)
		if err := flags.Parse(c.args); err != nil {
			t.Fatal(err)
		}
		got, err := from.Settings(io.Discard)
		if c.keys == "" {
			if err == nil || !strings.Contains(err.Error(), "COSMOS_KEY is invalid") {
				t.Errorf("%v: %v, %v", c.args, got, err)
			}
			continue
		}
		if err != nil || got != c.want || from.names().keys() != c.keys {
			t.Errorf("%v: %#v, key of %s, %v", c.args, got, from.names().keys(), err)
		}
	}
}

func TestAnInvalidAccountIsRejectedByNameAndWithoutTheKey(t *testing.T) {
	const a = "https://a.documents.azure.com:443/"
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	keyFile := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(keyFile, []byte(keyB), 0o600); err != nil {
		t.Fatal(err)
	}
	secret := "hunter2hunter2"
	for _, c := range []struct {
		env  map[string]string
		args []string
		want string
	}{
		{nil, nil, "COSMOS_CONNECTION_STRING, or --data DIR"},
		{nil, []string{"--key", keyA}, "no account is named"},
		{nil, []string{"--endpoint", ""}, "--endpoint is empty"},
		{map[string]string{"COSMOS_KEY": keyA}, []string{"--endpoint", a, "--key", ""}, "--key is empty"},
		{map[string]string{"COSMOS_ENDPOINT": a}, []string{"--data", ""}, "--data is empty"},
		{nil, []string{"--data", "d", "--endpoint", a}, "--data and --endpoint exclude each other"},
		{nil, []string{"--data", "d", "--key", keyA}, "--data and --key exclude each other"},
		{nil, []string{"--connection-string", "x", "--endpoint", a}, "exclude each other"},
		{nil, []string{"--endpoint", a, "--key", keyA, "--key-file", "f"}, "--key and --key-file exclude each other"},
		{nil, []string{"--endpoint", a, "--key-file", "no such file"}, "no such file"},
		{nil, []string{"--endpoint", a, "--key-file", empty}, "is empty"},
		{nil, []string{"--endpoint", "a.documents.azure.com"}, "--endpoint is"},
		{nil, []string{"--endpoint", "AccountEndpoint=" + a + ";AccountKey=" + secret}, "--endpoint is"},
		{nil, []string{"--endpoint", "https://user:" + secret + "@a.documents.azure.com/"}, "--endpoint is"},
		{nil, []string{"--endpoint", a, "--key", secret + "!"}, "is invalid"},
		{nil, []string{"--endpoint", "http://127.0.0.1:99999"}, "--endpoint is \"http://127.0.0.1:99999\": its port must be a number from 1 to 65535"},
		{nil, []string{"--connection-string", "AccountKey=" + secret}, "AccountEndpoint is missing"},
		{nil, []string{"--connection-string", "AccountEndpoint=" + a}, "AccountKey is missing"},
		{nil, []string{"--connection-string", "AccountEndpoint=" + a + ";AccountKey=" + secret + ";DisableServerCertificateValidation=True;"}, "DisableServerCertificateValidation"},
		{nil, []string{"--connection-string", "AccountEndpoint=" + a + ";AccountKey=" + keyA + ";DisableServerCertificateValidation=maybe;"}, "DisableServerCertificateValidation must be True or False"},
		{map[string]string{"COSMOS_CONNECTION_STRING": secret}, nil, "COSMOS_CONNECTION_STRING is invalid"},
		// An error names only the flag or variable whose value is wrong.
		{nil, []string{"--connection-string", "AccountEndpoint=" + a + ";AccountKey=" + secret + "!"}, "AccountKey in --connection-string is invalid"},
		{map[string]string{"COSMOS_CONNECTION_STRING": "AccountEndpoint=" + a + ";AccountKey=" + secret + "!"}, nil, "AccountKey in COSMOS_CONNECTION_STRING is invalid"},
		{nil, []string{"--connection-string", "AccountEndpoint=a;AccountKey=" + keyA}, "AccountEndpoint in --connection-string is"},
		{map[string]string{"COSMOS_ENDPOINT": a, "COSMOS_KEY": secret + "!"}, nil, "COSMOS_KEY is invalid"},
		{map[string]string{"COSMOS_ENDPOINT": a, "COSMOS_KEY_FILE": empty}, nil, "COSMOS_KEY_FILE: "},
		{map[string]string{"COSMOS_ENDPOINT": "a", "COSMOS_KEY": keyA}, nil, "COSMOS_ENDPOINT is"},
		// If two variables contradict each other, Settings returns an error. Neither
		// variable overrides the other.
		{map[string]string{"COSMOS_ENDPOINT": a, "COSMOS_CONNECTION_STRING": "AccountEndpoint=https://b.test/;AccountKey=" + keyA}, nil, `COSMOS_ENDPOINT is "https://a.documents.azure.com:443/", but COSMOS_CONNECTION_STRING names another account, "https://b.test/"`},
		{map[string]string{"COSMOS_KEY": keyB, "COSMOS_CONNECTION_STRING": "AccountEndpoint=" + a + ";AccountKey=" + keyA}, nil, "COSMOS_KEY and the AccountKey in COSMOS_CONNECTION_STRING are different keys"},
		{map[string]string{"COSMOS_ENDPOINT": a, "COSMOS_KEY": keyA, "COSMOS_KEY_FILE": keyFile}, nil, "COSMOS_KEY and COSMOS_KEY_FILE are different keys"},
	} {
		got, err := settings(t, "", c.env, c.args...)
		var usage *UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, %v; want %q", c.args, got, err, c.want)
			continue
		}
		for _, k := range []string{secret, keyA, keyB} {
			if strings.Contains(err.Error(), k) {
				t.Errorf("%v: the error holds the key: %v", c.args, err)
			}
		}
	}
}

func TestSettingsPrintNoKey(t *testing.T) {
	s := Settings{Endpoint: "https://a.documents.azure.com:443/", Key: keyA}
	for _, form := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		for _, text := range []string{fmt.Sprintf(form, s), fmt.Sprintf(form, &s), fmt.Sprintf(form, []Settings{s})} {
			if strings.Contains(text, keyA) {
				t.Errorf("%s prints %s", form, text)
			}
		}
	}
}

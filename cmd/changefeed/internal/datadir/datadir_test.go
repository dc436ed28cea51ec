package datadir

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestOnlyAStoreOrAnEmptyDirectoryIsADataDirectory(t *testing.T) {
	for name, c := range map[string]struct {
		files []string
		want  string // text that the error contains; empty if there is no error
	}{
		"empty":                         {nil, ""},
		"a store":                       {[]string{"FORMAT", "000002.log", "LOCK", "localhost.crt"}, ""},
		"a store beside other files":    {[]string{"FORMAT", "notes.txt"}, ""},
		"a new file system":             {[]string{"lost+found", ".Trash-1000"}, ""},
		"a certificate that was kept":   {[]string{"localhost.crt", "localhost.key"}, ""},
		"an opening that was cut off":   {[]string{"LOCK", "PID", "FORMAT.new"}, ""},
		"a store without its format":    {[]string{"000002.log", "LOG-000002", "MANIFEST-000001", "OPTIONS-000003", "marker.manifest.000001.MANIFEST-000001"}, ""},
		"files of another program":      {[]string{"go.mod", "main.go"}, `"go.mod"`},
		"another program's log":         {[]string{"server.log"}, `"server.log"`},
		"another program's daily logs":  {[]string{"20261121.log", "20261122.log"}, `"20261121.log"`},
		"files beside those of a crash": {[]string{"LOCK", "PID", "photo.jpg"}, `"photo.jpg"`},
	} {
		dir := t.TempDir()
		for _, file := range c.files {
			if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		err := Check(dir)
		if (err == nil) != (c.want == "") || err != nil && (!strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), dir)) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := Check(filepath.Join(t.TempDir(), "none")); err != nil {
		t.Errorf("a directory that is not there: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Check(file); err == nil {
		t.Error("a file is taken for a directory")
	}
}

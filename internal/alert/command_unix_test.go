//go:build unix

package alert_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/alert"
)

// TestACommandGetsTheAlert: a command beside costs.yaml gets the JSON on its
// standard input, without a shell.
func TestACommandGetsTheAlert(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "page.sh"), []byte("#!/bin/sh\ncat >\"$1\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(dir, "$(got)")
	c := newClient(t, "{command: [./page.sh, \""+out+"\"], on: [level]}", sqlite(dir), dir)
	spend(t, c, 95)
	alert.New(c, nil).Check(t.Context())
	got, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(got),
		`"kind":"level","account":"p","budget":"day","level":95,"used":95,"limit":100`) {
		t.Errorf("%s %v", got, err)
	}
}

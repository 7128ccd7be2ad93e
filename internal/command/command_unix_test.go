//go:build unix

package command_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/command"
)

// TestProgramsAreFound: a name with a slash is relative to the folder, another
// is looked up in PATH. An error has the place and says what to do.
func TestProgramsAreFound(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"fetch-emea.sh": 0o755, "plain.sh": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"./fetch-{region}.sh":               filepath.Join(dir, "fetch-emea.sh"),
		filepath.Join(dir, "fetch-emea.sh"): filepath.Join(dir, "fetch-emea.sh"),
		"./none.sh": "regions.yaml:4:14: no program " + dir +
			"/none.sh (no such file or directory); correct command",
		"./plain.sh": "regions.yaml:4:14: no program " + dir +
			"/plain.sh (permission denied); make it executable with chmod +x, or correct command",
		"./": "correct command",
		"fetch-emea.sh": "regions.yaml:4:14: no program fetch-emea.sh in PATH (executable file " +
			"not found in $PATH); install it, or write its path",
		"{nonsense}": "regions.yaml:4:14: unknown placeholder",
	} {
		p := &command.Program{Args: []string{name, "{tick}"}, Dir: dir, Place: "regions.yaml:4:14"}
		args, err := p.Expand(&command.Values{Region: "emea"})
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = args[0]
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %s; want %s", name, got, want)
		}
	}
	p := &command.Program{Args: []string{"sh"}, Dir: dir}
	if args, err := p.Expand(&command.Values{}); err != nil || !filepath.IsAbs(args[0]) {
		t.Errorf("sh: %q, %v; want its path", args, err)
	}
}

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/cli"
)

// TestManualPages: each command that help lists has a page, which man formats
// without a warning.
func TestManualPages(t *testing.T) {
	if testing.Short() {
		t.Skip("runs man for each page, a second")
	}
	dir := t.TempDir()
	root := newApp().root()
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil || len(pages) < len(cli.Children(root)) {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	text := mustRead(t, filepath.Join(dir, "ration-run.1"))
	for _, want := range []string{".SH NAME\nration\\-run \\- fetch what", `\fB\-q\fR, \fB\-\-quiet\fR`,
		`\fB\-\-key\-file\fR \fIfile\fR`, ".SH EXAMPLES", `\fBration\fR(1)`, "75  stopped"} {
		if !strings.Contains(text, want) {
			t.Errorf("ration-run.1 does not have %q", want)
		}
	}
	if strings.Contains(text, dir) {
		t.Errorf("ration-run.1 names a folder of this machine")
	}
	groff := tool(t, "groff", "groff-base")
	for _, page := range pages {
		if out, err := exec.Command(groff, "-man", "-ww", "-K", "utf8", "-T", "utf8", "-z",
			page).CombinedOutput(); err != nil || len(out) > 0 {
			t.Errorf("%s: %v: %s", filepath.Base(page), err, out)
		}
	}
}

// tool returns the path of a program of one of Debian's packages. It skips the
// test without one, or fails it if RATION_REQUIRE_TOOLS=1.
func tool(t *testing.T, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("RATION_REQUIRE_TOOLS") == "1" {
		t.Fatalf("no %s on this machine, and RATION_REQUIRE_TOOLS=1; install %s", name, pkg)
	}
	if err != nil {
		t.Skipf("SKIPPED, no %s on this machine; install %s to run this test", name, pkg)
	}
	return path
}

package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/internal/cli"
)

// TestAManualPageShowsItsTextsAsTheyAre: a text whose line begins with a dot or
// a quote, or has a backslash, is shown as it is. What is hidden has no page
// and no paragraph.
func TestAManualPageShowsItsTextsAsTheyAre(t *testing.T) {
	run := func(*cobra.Command, []string) error { return nil }
	root := &cobra.Command{Use: "tool", Short: "Do things"}
	root.PersistentFlags().BoolP("quiet", "q", false, "say less")
	one := &cobra.Command{Use: "one NAME", Short: "Do one thing", Long: "It does\n.so /etc/passwd\n'quoted\nC:\\new",
		RunE: run}
	one.Flags().String("key-file", "a-b", "`file` of the key")
	one.Flags().Bool("secret", false, "not for users")
	if err := one.Flags().MarkHidden("secret"); err != nil {
		t.Fatal(err)
	}
	root.AddCommand(one, &cobra.Command{Use: "internal", Hidden: true, RunE: run})
	dir := filepath.Join(t.TempDir(), "share", "man1") // which is missing
	if err := cli.WriteManual(root, dir); err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(pages) != 2 {
		t.Fatalf("%q, %v; want pages of tool and tool one", pages, err)
	}
	page, err := os.ReadFile(filepath.Join(dir, "tool-one.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\n\\&.so /etc/passwd\n\\&'quoted\nC:\\enew\n.fi\n",
		".SH NAME\ntool\\-one \\- do one thing\n", ".SH SYNOPSIS\n.nf\ntool one NAME",
		`\fB\-\-key\-file\fR \fIfile\fR` + "\nfile of the key (default a\\-b)\n",
		".SH OPTIONS OF EVERY COMMAND\n.TP\n\\fB\\-q\\fR, \\fB\\-\\-quiet\\fR", ".SH SEE ALSO\n\\fBtool\\fR(1)\n"} {
		if !strings.Contains(string(page), want) {
			t.Errorf("no %q in\n%s", want, page)
		}
	}
	if strings.Contains(string(page), "secret") || strings.Contains(string(page), "EXAMPLES") {
		t.Errorf("it has what is hidden or empty:\n%s", page)
	}
}

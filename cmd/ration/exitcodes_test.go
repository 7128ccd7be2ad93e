package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// codesOfOtherTests are those that no script can bring about.
var codesOfOtherTests = map[string]string{
	"ration serve 0":             "TestServe, which ends it by a signal",
	"ration proxy 0":             "TestProxyEndsWithItsRequests, likewise",
	"ration fake youtube 0":      "TestFakeYouTubeIsAskedByAnyProgram, likewise",
	"ration ledger reconcile 75": "the script ledger, where several at once reconcile",
}

// TestHelpListsTheExitCodesThatACommandGives holds the help of each command
// against the scripts: every code that a script sees is listed, and every code
// that is listed is seen by a script. Signals have tests of their own, and 1 is
// any other error.
func TestHelpListsTheExitCodesThatACommandGives(t *testing.T) {
	seen := map[string]map[string]bool{}
	scripts, err := filepath.Glob(filepath.Join("testdata", "script", "*.txtar"))
	if err != nil || len(scripts) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	root := newApp().root()
	for _, script := range scripts {
		for _, line := range regexp.MustCompile(`(?m)^exits ([0-9]+) ration (.*)$`).FindAllStringSubmatch(mustRead(t,
			script), -1) {
			if strings.Contains(line[2], "--help") || strings.Contains(line[2], "no-such-command") {
				continue
			}
			cmd, _, err := root.Find(strings.Fields(line[2]))
			if err != nil {
				t.Fatalf("%s: %s: %v", script, line[0], err)
			}
			if seen[cmd.CommandPath()] == nil {
				seen[cmd.CommandPath()] = map[string]bool{}
			}
			seen[cmd.CommandPath()][line[1]] = true
		}
	}
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			check(sub)
		}
		if !strings.Contains(cmd.Long, "Exit codes:") {
			return
		}
		_, codes, _ := strings.Cut(cmd.Long, "Exit codes:\n")
		if follows := regexp.MustCompile(`(?m)^  [0-9]+ .*\n(\S.*)`).FindStringSubmatch(codes); follows != nil {
			t.Errorf("%s --help: no blank line between the exit codes and %q", cmd.CommandPath(), follows[1])
		}
		listed := map[string]bool{}
		for _, line := range regexp.MustCompile(`(?m)^  ([0-9]+) `).FindAllStringSubmatch(codes, -1) {
			listed[line[1]] = true
		}
		for code := range seen[cmd.CommandPath()] {
			if !listed[code] {
				t.Errorf("%s exits with %s in a script; its help does not say so", cmd.CommandPath(), code)
			}
		}
		for _, code := range slices.Sorted(maps.Keys(listed)) {
			elsewhere := code == fmt.Sprint(exitFailed) || code == "130" ||
				codesOfOtherTests[cmd.CommandPath()+" "+code] != ""
			if !elsewhere && !seen[cmd.CommandPath()][code] {
				t.Errorf("the help of %s lists exit code %s, which no script sees", cmd.CommandPath(), code)
			}
		}
	}
	check(root)
}

// TestHelpWrapsOn80Columns holds the help of every command to 80 columns.
func TestHelpWrapsOn80Columns(t *testing.T) {
	var out strings.Builder
	a := newApp()
	a.columns = func() int { return 80 }
	root := a.root()
	root.SetOut(&out)
	var check func(cmd *cobra.Command)
	check = func(cmd *cobra.Command) {
		out.Reset()
		if err := cmd.Help(); err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(out.String()) {
			// examples are to be copied
			if line = strings.TrimRight(line, "\n"); len([]rune(line)) > 80 && !strings.HasPrefix(line, "  ration ") {
				t.Errorf("%s --help: %d columns: %s", cmd.CommandPath(), len([]rune(line)), line)
			}
		}
		for _, sub := range cmd.Commands() {
			check(sub)
		}
	}
	check(root)
}

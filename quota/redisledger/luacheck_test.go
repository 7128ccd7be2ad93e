package redisledger_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/quota/redisledger"
)

// TestScriptsHaveWhatTheyUse checks that each script, as it is sent, contains
// every module and function that it names, ahead of its use.
func TestScriptsHaveWhatTheyUse(t *testing.T) {
	t.Parallel()
	luacheck, err := exec.LookPath("luacheck")
	if err != nil && os.Getenv("RATION_REQUIRE_TOOLS") == "1" {
		t.Fatal("no luacheck on this machine, and RATION_REQUIRE_TOOLS=1; install lua-check")
	}
	if err != nil {
		t.Skip("no luacheck on this machine")
	}
	folder := t.TempDir()
	for name, text := range redisledger.Scripts {
		if err := os.WriteFile(filepath.Join(folder, name+".lua"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command(luacheck, "--only", "1", "--formatter", "plain", "--", folder)
	cmd.Dir = "../.." // of .luacheckrc
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, strings.ReplaceAll(string(out), folder+"/", ""))
	}
}

// TestEveryLuaFileIsInAScript: a script that Scripts lacks would not be
// checked.
func TestEveryLuaFileIsInAScript(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("lua/*.lua")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	var all strings.Builder
	for _, text := range redisledger.Scripts {
		all.WriteString(text)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(all.String(), string(text)) {
			t.Errorf("no script contains %s", file)
		}
	}
}

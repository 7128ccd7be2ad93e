package cli_test

import (
	"encoding/json"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/cli"
)

// TestRevisionIsThatOfTheClone: a program that was built in a clone names its
// revision, and that files were changed since.
func TestRevisionIsThatOfTheClone(t *testing.T) {
	if got := cli.ReadBuild(); got.Go != runtime.Version() || got.Platform != runtime.GOOS+"/"+runtime.GOARCH ||
		got.Revision != "-" {
		t.Errorf("a test is %+v; want no revision", got) // go test records none
	}
	dir := t.TempDir()
	run := func(name string, args ...string) string {
		cmd := exec.Command(name, args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v: %s", name, args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	source, err := filepath.Abs("build.go")
	if err != nil {
		t.Fatal(err)
	}
	run("sh", "-c", "mkdir build && cp "+source+" build && printf 'module example\\n\\ngo 1.26\\n' > go.mod")
	run("sh", "-c",
		`printf 'package main\n\nimport (\n"encoding/json"\n"os"\n\nbuild "example/build"\n)\n\nfunc main() { `+
			`json.NewEncoder(os.Stdout).Encode(build.ReadBuild()) }\n' > main.go`)
	run("sh", "-c", "git init -q && git add . && git -c user.name=a -c user.email=a@b commit -qm a")
	for _, modified := range []bool{false, true} {
		if modified {
			run("sh", "-c", "echo // >> main.go")
		}
		run("go", "build", "-buildvcs=true", "-o", "../"+filepath.Base(dir)+".program", ".")
		var got cli.BuildInfo
		if err := json.Unmarshal([]byte(run(dir+".program")), &got); err != nil {
			t.Fatal(err)
		}
		if got.Revision != run("git", "rev-parse", "HEAD") || got.Date == "-" || got.Modified != modified {
			t.Errorf("%+v; want the revision of the clone, modified: %v", got, modified)
		}
	}
}

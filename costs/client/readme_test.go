package client_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFakeSample: ExampleNew runs the Go sample of docs/fake.md.
func TestFakeSample(t *testing.T) {
	sample := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(read(t,
		filepath.Join(clone, "docs", "fake.md")))[1]
	if !strings.Contains(read(t, filepath.Join(clone, "costs", "client", "example_new_test.go")), sample) {
		t.Errorf("ExampleNew does not run the sample of docs/fake.md:\n%s", sample)
	}
}

// TestReadmeSample follows the README: its commands make a new module depend on
// a clone, and its Go sample compiles there. The sample is in ExampleOpen's
// file, and ExampleOpen runs it.
func TestReadmeSample(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles a program, 7 seconds")
	}
	readme := read(t, filepath.Join(clone, "README.md"))
	sample := regexp.MustCompile("(?s)```go\n(.*?)```").FindStringSubmatch(readme)[1]
	example := read(t, filepath.Join(clone, "costs", "client", "example_test.go"))
	if !strings.Contains(example, sample) {
		t.Errorf("ExampleOpen does not run the README's sample:\n%s", sample)
	}

	app := t.TempDir()
	program := strings.NewReplacer("package client_test", "package main", "func ExampleOpen()",
		"func main()").Replace(example)
	if err := os.WriteFile(filepath.Join(app, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	commands := regexp.MustCompile("(?s)```sh\n(go mod init.*?)```").FindStringSubmatch(readme)[1]
	cmd := exec.Command("sh", "-ec", strings.ReplaceAll(commands, "../ration", clone)+"go build -o app .")
	cmd.Dir, cmd.Env = app, append(os.Environ(), "GOSUMDB=off") // go.sum has the checksums
	sums := read(t, filepath.Join(clone, "go.sum"))
	if err := os.WriteFile(filepath.Join(app, "go.sum"), []byte(sums), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

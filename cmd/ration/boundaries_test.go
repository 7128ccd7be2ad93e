package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/ration-dev/ration"

// layers are the packages of this module in their order: each may import those
// before it, test files aside. A package that is not here is not known, and
// fails.
var layers = []struct{ name, packages string }{
	{"for all", "internal/human internal/files internal/engine internal/servers jobs/youtube/youtubetest"},
	{"for your own clients", "quota/inbound quota/inbound/redisstore quota/inbound/sqlitestore"},
	{"stores", "quota/memledger quota/sqliteledger quota/postgresledger quota/ledgertest"},
	{"the guard", "quota quota/redisledger quota/feedback internal/replica internal/testledger"},
	{"costs.yaml", "internal/strictyaml costs costs/client"},
	{"regions.yaml", "internal/catalog internal/command jobs/youtube jobs"},
	{"what is left, and why", "internal/usage internal/report internal/alert internal/metrics internal/plan"},
	{"servers and commands",
		"internal/gateway internal/web internal/setup internal/inspect internal/daemon internal/cli"},
	{"the command", "cmd/ration"},
}

// packages are those of all layers.
func packages() (all []string) {
	for _, l := range layers {
		all = append(all, strings.Fields(l.packages)...)
	}
	return all
}

// onlyStandard are the packages that a library user gets without
// any dependency but the system calls of internal/files.
const onlyStandard = "internal/human internal/engine jobs/youtube/youtubetest quota/inbound quota/memledger quota " +
	"quota/feedback"

// TestBoundaries parses the imports themselves: go list would be stale in the
// test cache.
func TestBoundaries(t *testing.T) {
	root := filepath.Join("..", "..")
	seen := map[string]bool{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		// docs has modules of its own
		if d.IsDir() && file != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "docs") {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		rel, err := filepath.Rel(root, filepath.Dir(file))
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(rel)
		seen[pkg] = true
		checkImports(t, file, pkg)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, pkg := range packages() {
		if !seen[pkg] {
			t.Errorf("package %s is in the table and not in the tree", pkg)
		}
	}
}

// TestLibrariesDoNotCompileGooglesClient: a program that guards its own client
// does not compile Google's client and its telemetry, which take most of the
// time of a first build. TestBoundaries opens each file, so a cached result is
// not stale.
func TestLibrariesDoNotCompileGooglesClient(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the go command seven times, 2 seconds")
	}
	for _, pkg := range []string{"quota", "quota/memledger", "quota/sqliteledger", "quota/redisledger",
		"quota/postgresledger", "costs", "costs/client", "internal/gateway"} {
		out, err := exec.Command("go", "list", "-deps", module+"/"+pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			for _, heavy := range []string{"google.golang.org/api", "google.golang.org/grpc", "cloud.google.com",
				"github.com/googleapis", "go.opentelemetry.io"} {
				if strings.HasPrefix(line, heavy) {
					t.Errorf("%s imports %s", pkg, strings.TrimSpace(line))
				}
			}
		}
	}
}

func checkImports(t *testing.T, file, pkg string) {
	place := slices.Index(packages(), pkg)
	if place < 0 {
		t.Errorf("%s: package %s is not known; decide what it may import, and give it a place in layers", file, pkg)
		return
	}
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	for _, spec := range parsed.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		within, ours := strings.CutPrefix(imported, module+"/")
		switch {
		case ours && !slices.Contains(packages()[:place], within):
			t.Errorf("%s: %s may not import %s", file, pkg, within)
		case !ours && slices.Contains(strings.Fields(onlyStandard), pkg) &&
			strings.Contains(strings.Split(imported, "/")[0], "."):
			t.Errorf("%s: %s keeps to the standard library and may not import %s", file, pkg, imported)
		case pkg != "cmd/ration" && pkg != "internal/cli" && path.Base(imported) == "cobra" || pkg != "cmd/ration" &&
			imported == "os/signal":
			t.Errorf("%s: only cmd/ration knows %s", file, imported)
		}
	}
}

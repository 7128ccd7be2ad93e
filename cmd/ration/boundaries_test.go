package main

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os/exec"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/ration-dev/ration"

// boundaries says what each package may import of this module, test files
// aside. A package that is not here is not known, and fails.
var boundaries = map[string][]string{
	"quota":                            {"internal/textfmt", "quota/internal/engine"},
	"quota/internal/engine":            {},
	"quota/replica":                    {"internal/filelock", "quota/internal/engine", "quota/privatefile"},
	"quota/redisledger":                {"internal/textfmt", "quota", "quota/internal/engine", "quota/privatefile"},
	"quota/ledgercopy":                 {"internal/textfmt", "quota", "quota/internal/engine", "quota/memledger", "quota/privatefile"},
	"quota/ledgercopy/copytest":        {"quota", "quota/internal/engine"},
	"quota/inbound":                    {},
	"quota/inbound/redisstore":         {"quota/inbound"},
	"quota/inbound/sqlitestore":        {"quota/inbound"},
	"internal/filelock":                {"quota/privatefile"},
	"quota/privatefile":                {"internal/textfmt"},
	"quota/readahead":                  {},
	"internal/redistest":               {},
	"internal/testledger":              {"quota", "quota/memledger", "quota/redisledger", "quota/sqliteledger"},
	"internal/textfmt":                 {},
	"quota/internal/loghead":           {"quota/internal/engine"},
	"quota/ledgertest":                 {"quota/internal/engine"},
	"quota/memledger":                  {"quota/internal/engine", "quota/internal/loghead"},
	"quota/sqliteledger":               {"internal/filelock", "quota/internal/engine", "quota/internal/loghead", "quota/privatefile"},
	"quota/postgresledger":             {"quota/internal/engine"},
	"internal/postgrestest":            {},
	"quota/feedback":                   {"internal/textfmt", "quota", "quota/readahead"},
	"quota/reconcile":                  {"internal/textfmt", "quota"},
	"quota/usage":                      {"internal/textfmt", "quota"},
	"quota/metrics":                    {"quota", "quota/usage"},
	"costs":                            {"internal/textfmt", "quota", "quota/feedback", "quota/readahead", "costs/human", "costs/duration", "costs/strictyaml"},
	"costs/alert":                      {"internal/textfmt", "quota", "quota/privatefile", "quota/usage", "costs", "costs/client", "costs/human", "costs/why"},
	"costs/client":                     {"quota", "quota/inbound", "quota/inbound/redisstore", "quota/inbound/sqlitestore", "costs/human", "quota/privatefile", "quota/replica", "quota/feedback", "quota/sqliteledger", "quota/redisledger", "quota/postgresledger", "quota/ledgercopy", "costs", "costs/strictyaml"},
	"costs/duration":                   {"internal/textfmt"},
	"costs/explain":                    {"quota", "quota/feedback", "costs", "costs/client", "costs/human"},
	"costs/human":                      {"internal/textfmt", "quota"},
	"costs/cooldown":                   {"internal/textfmt", "quota", "quota/ledgercopy", "costs", "costs/human"},
	"costs/levels":                     {"quota", "quota/privatefile", "costs/human"},
	"costs/strictyaml":                 {"internal/textfmt", "costs/duration", "quota/privatefile"},
	"costs/internal/genroutes":         {},
	"costs/gateway":                    {"internal/textfmt", "quota", "quota/inbound", "quota/privatefile", "quota/readahead", "costs", "costs/client", "costs/cooldown", "costs/duration", "costs/human", "costs/strictyaml"},
	"costs/why":                        {"quota", "quota/usage", "costs/client", "costs/human"},
	"jobs":                             {"quota", "costs/human", "quota/feedback", "costs", "costs/client", "costs/duration", "costs/strictyaml", "jobs/catalog", "jobs/command", "jobs/youtube"},
	"jobs/catalog":                     {"internal/filelock", "quota/privatefile"},
	"jobs/changes":                     {"quota", "costs", "costs/human", "jobs"},
	"jobs/starter":                     {"quota", "quota/privatefile", "costs", "costs/strictyaml", "jobs", "jobs/setup"},
	"jobs/command":                     {"quota", "costs/human", "costs/strictyaml"},
	"jobs/daemon":                      {"quota", "quota/inbound", "quota/metrics", "costs", "costs/client", "costs/gateway", "costs/human", "jobs", "jobs/changes", "jobs/history", "jobs/scheduler", "jobs/setup", "jobs/shadow"},
	"jobs/demo":                        {"quota", "quota/privatefile", "costs/human", "jobs", "jobs/youtube/youtubetest"},
	"jobs/doctor":                      {"quota", "quota/privatefile", "quota/redisledger", "quota/sqliteledger", "costs", "costs/alert", "costs/client", "costs/gateway", "costs/human", "costs/strictyaml", "jobs", "jobs/setup", "jobs/status"},
	"jobs/entries":                     {"quota/usage", "costs/client", "jobs", "jobs/catalog", "jobs/history", "jobs/setup"},
	"jobs/history":                     {"quota", "quota/reconcile", "quota/usage", "costs/client", "jobs/catalog"},
	"jobs/internal/ledgers":            {"internal/redistest", "internal/testledger", "quota", "quota/memledger", "quota/redisledger", "quota/sqliteledger"},
	"jobs/plan":                        {"quota", "quota/memledger", "quota/usage", "costs", "costs/human", "costs/duration", "costs/strictyaml", "jobs", "jobs/command"},
	"jobs/setup":                       {"quota", "quota/metrics", "quota/privatefile", "quota/sqliteledger", "costs", "costs/alert", "costs/client", "costs/gateway", "costs/human", "costs/levels", "costs/strictyaml", "jobs", "jobs/catalog", "jobs/command", "jobs/plan", "jobs/web"},
	"jobs/status":                      {"quota", "quota/usage", "costs", "costs/client", "costs/cooldown", "costs/human", "costs/why", "jobs", "jobs/catalog", "jobs/plan", "jobs/setup", "jobs/shadow"},
	"jobs/shadow":                      {"quota/metrics", "quota/usage", "costs/client", "costs/human", "jobs/plan"},
	"jobs/scheduler":                   {"quota", "costs/human", "jobs", "jobs/catalog"},
	"jobs/web":                         {"quota", "quota/usage", "costs", "costs/client", "costs/cooldown", "costs/gateway", "costs/human", "costs/why", "jobs", "jobs/catalog", "jobs/plan", "jobs/shadow"},
	"jobs/youtube":                     {"internal/textfmt", "quota", "quota/feedback", "jobs/catalog"},
	"jobs/youtube/youtubetest":         {},
	"cmd/ration/internal/cmdline":      {"quota", "quota/reconcile", "costs", "costs/duration", "costs/gateway", "costs/human", "costs/strictyaml"},
	"cmd/ration/internal/build":        {},
	"cmd/ration/internal/explaincmd":   {"cmd/ration/internal/cmdline", "quota", "costs", "costs/explain"},
	"cmd/ration/internal/logview":      {"cmd/ration/internal/terminal", "costs/client", "costs/human", "jobs", "jobs/entries", "jobs/setup", "quota", "quota/usage"},
	"cmd/ration/internal/limitcmd":     {"cmd/ration/internal/cmdline", "costs/client", "costs/duration", "costs/gateway", "quota", "quota/inbound"},
	"cmd/ration/internal/manual":       {"cmd/ration/internal/build"},
	"cmd/ration/internal/bars":         {"cmd/ration/internal/terminal", "costs/human", "jobs"},
	"cmd/ration/internal/durationflag": {"costs/duration", "costs/human"},
	"cmd/ration/internal/redact":       {"costs/human", "cmd/ration/internal/terminal"},
	"cmd/ration/internal/terminal":     {},
	"cmd/ration": {
		"cmd/ration/internal/bars", "cmd/ration/internal/build", "cmd/ration/internal/explaincmd", "cmd/ration/internal/limitcmd", "cmd/ration/internal/logview",
		"cmd/ration/internal/cmdline", "cmd/ration/internal/manual", "cmd/ration/internal/durationflag",
		"cmd/ration/internal/redact", "cmd/ration/internal/terminal", "internal/textfmt", "quota", "costs/human",
		"quota/privatefile", "quota/memledger", "quota/sqliteledger", "quota/reconcile", "quota/ledgercopy", "quota/usage",
		"quota/redisledger", "quota/metrics", "costs", "quota/inbound", "costs/client", "costs/alert",
		"costs/cooldown", "costs/duration", "costs/gateway", "costs/levels", "costs/strictyaml", "costs/why", "jobs",
		"jobs/catalog", "jobs/command", "jobs/daemon", "jobs/demo", "jobs/doctor", "jobs/entries", "jobs/history",
		"jobs/plan", "jobs/setup", "jobs/shadow", "jobs/status", "jobs/web", "jobs/scheduler", "jobs/starter",
		"jobs/youtube", "jobs/youtube/youtubetest",
	},
}

// onlyStandard are the packages that a library user gets without
// any dependency.
var onlyStandard = []string{"internal/textfmt", "quota", "quota/internal/engine", "quota/internal/loghead", "quota/memledger", "quota/feedback", "quota/inbound", "quota/reconcile", "quota/usage", "quota/readahead", "jobs/youtube/youtubetest"}

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
		if d.IsDir() && file != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "docs") { // docs has modules of its own
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
	for pkg := range boundaries {
		if !seen[pkg] {
			t.Errorf("package %s is in the table and not in the tree", pkg)
		}
	}
}

// TestLibrariesCompileGoogle: a program that guards its own client does not
// compile Google's client and its telemetry, which take most of the time of a
// first build. TestBoundaries opens each file, so a cached result is not stale.
func TestLibrariesCompileGoogle(t *testing.T) {
	if testing.Short() {
		t.Skip("starts the go command seven times, 2 seconds")
	}
	for _, pkg := range []string{"quota", "quota/memledger", "quota/sqliteledger", "quota/redisledger", "quota/postgresledger", "costs", "costs/client", "costs/gateway"} {
		out, err := exec.Command("go", "list", "-deps", module+"/"+pkg).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		for line := range strings.Lines(string(out)) {
			for _, heavy := range []string{"google.golang.org/api", "google.golang.org/grpc", "cloud.google.com", "github.com/googleapis", "go.opentelemetry.io"} {
				if strings.HasPrefix(line, heavy) {
					t.Errorf("%s imports %s", pkg, strings.TrimSpace(line))
				}
			}
		}
	}
}

func checkImports(t *testing.T, file, pkg string) {
	allowed, known := boundaries[pkg]
	if !known {
		t.Errorf("%s: package %s is not known; decide what it may import, and add it to the table", file, pkg)
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
		case ours && !contains(allowed, within):
			t.Errorf("%s: %s may not import %s", file, pkg, within)
		case !ours && contains(onlyStandard, pkg) && strings.Contains(strings.Split(imported, "/")[0], "."):
			t.Errorf("%s: %s keeps to the standard library and may not import %s", file, pkg, imported)
		case !strings.HasPrefix(pkg, "cmd/ration") && path.Base(imported) == "cobra" || pkg != "cmd/ration" && imported == "os/signal":
			t.Errorf("%s: only cmd/ration knows %s", file, imported)
		}
	}
}

func contains(list []string, word string) bool {
	for _, w := range list {
		if w == word {
			return true
		}
	}
	return false
}

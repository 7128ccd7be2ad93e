package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// openers are the functions that open, create or fill a file by its path, or
// that have a library do so.
var openers = map[string][]string{
	"os": {"Open", "OpenFile", "Create", "CreateTemp", "ReadFile", "WriteFile", "Truncate",
		"OpenRoot", "OpenInRoot", "DirFS", "CopyFS"},
	"io/ioutil":             {"ReadFile", "WriteFile", "TempFile"},
	"syscall":               {"Open", "Openat", "Creat", "Truncate"},
	"golang.org/x/sys/unix": {"Open", "Openat", "Openat2", "Creat", "Truncate"},
	"crypto/tls":            {"LoadX509KeyPair"},
	"database/sql":          {"Open", "OpenDB"},
	"modernc.org/sqlite":    {"Driver"},
}

// openElsewhere are the uses outside package files, each with its reason.
var openElsewhere = map[string]string{
	"cmd/ration/ca.go os.ReadFile":       "the system's certificates, which are public",
	"internal/cli/explaincmd.go os.Open": "an answer that the caller names, which is only read",
	"jobs/youtube/youtubetest/load.go os.Open": "a test server reads public charts, and keeps to the " +
		"standard library",
	"internal/servers/redistest.go os.ReadFile":     "tests read the log of the server that they started",
	"internal/servers/topology.go os.WriteFile":     "tests write the configuration of a sentinel",
	"internal/catalog/catalog.go database/sql.Open": "SQLite opens by path what statFile has checked",
	"internal/replica/oldsqlite.go database/sql.Open": "SQLite opens by path a ledger of an earlier release, to " +
		"read it",
	"costs/read.go os.ReadFile": "the id of this machine, which only tells configurations " +
		"apart",
	"internal/command/foreground_unix.go os.Open": "the terminal of this process",
	"internal/setup/write.go os.OpenFile": "files that others may read, created in a folder of the " +
		"user's choice and never through a link",
	"internal/cli/manual.go os.WriteFile": "manual pages, which everybody reads, in a folder that " +
		"the packager names",
	"cmd/ration/report.go os.Open": "an upstream's answer, which the command line names, may " +
		"be a pipe or another user's",
	"cmd/ration/testdata/bare/main.go database/sql.Open": "a program to compare with",

	"quota/inbound/sqlitestore/sqlitestore.go os.OpenFile": "a new file of this user's, in a folder of the " +
		"caller's choice",
	"quota/inbound/sqlitestore/sqlitestore.go database/sql.Open": "counts of a server's clients, which decide " +
		"nothing that is paid for",
	"quota/sqliteledger/conn.go modernc.org/sqlite.Driver": "SQLite opens by path what check has checked",
	"internal/servers/postgrestest.go os.Create":           "tests write the log of a server",
	"internal/servers/postgrestest.go os.ReadFile":         "tests read the log of the server that they started",
	"internal/servers/postgrestest.go os.WriteFile":        "tests write the configuration of PgBouncer",
}

// isModule reports whether a folder is a module of its own: a tool for those
// who build ration.
func isModule(folder string) bool {
	_, err := os.Stat(filepath.Join(folder, "go.mod"))
	return err == nil
}

// TestFilesAreOpenedInOneWay: who opens a file by itself would follow links, or
// believe a file of another user. Test files may.
func TestFilesAreOpenedInOneWay(t *testing.T) {
	root, used := filepath.Join("..", ".."), map[string]bool{}
	err := filepath.WalkDir(root, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && file != root && (strings.HasPrefix(d.Name(), ".") || isModule(file)) {
			return filepath.SkipDir
		}
		rel, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") ||
			path.Dir(name) == "internal/files" {
			return nil
		}
		for _, opener := range openersIn(t, file) {
			use := name + " " + opener
			used[use] = true
			if openElsewhere[use] == "" {
				t.Errorf("%s: use package internal/files, or say in openElsewhere why not", use)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for use := range openElsewhere {
		if !used[use] {
			t.Errorf("%s: is excused and not there", use)
		}
	}
}

// openersIn returns which openers a file uses, whatever name it imports them
// by.
func openersIn(t *testing.T, file string) (used []string) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	imported := map[string]string{} // paths by the names they have in the file
	for _, spec := range parsed.Imports {
		name, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			t.Fatal(err)
		}
		local := path.Base(name)
		if spec.Name != nil {
			local = spec.Name.Name
		}
		if local == "." && openers[name] != nil {
			t.Errorf("%s: imports all names of %s", file, name)
		}
		imported[local] = name
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		selector, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if pkg, ok := selector.X.(*ast.Ident); ok && slices.Contains(openers[imported[pkg.Name]], selector.Sel.Name) {
			used = append(used, imported[pkg.Name]+"."+selector.Sel.Name)
		}
		return true
	})
	return used
}

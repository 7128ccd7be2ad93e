package main

import (
	"go/format"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// recipeFiles is how many files each recipe may change or add, tests aside.
var recipeFiles = map[string]int{"a preset": 2, "a dialect": 2, "a kind of window": 7, "a ledger": 2, "a command": 2,
	"to a refusal's text": 1}

// TestRecipes follows the recipes of CONTRIBUTING.md in a copy of the tree, one
// upon the other: it writes the files, makes the changes and runs the commands.
// What it writes is formatted, as make check wants it.
func TestRecipes(t *testing.T) {
	if testing.Short() {
		t.Skip("builds and tests other packages for half a minute")
	}
	t.Parallel()
	page := mustRead(t, filepath.Join("..", "..", "CONTRIBUTING.md"))
	recipes := strings.Split(page, "\n## Add ")[1:]
	if len(recipes) != len(recipeFiles) {
		t.Errorf("%d recipes; want %d", len(recipes), len(recipeFiles))
	}
	tree := filepath.Join(t.TempDir(), "ration")
	copyTree(t, tree)
	for _, recipe := range recipes {
		title, text, _ := strings.Cut(recipe, "\n")
		t.Run(title, func(t *testing.T) {
			commands := 0
			files := map[string]bool{} // tests aside
			for _, block := range regexp.MustCompile("(?s)```(\\w+)(?: (\\S+))?\n(.*?)```").FindAllStringSubmatch(text,
				-1) {
				language, name, text := block[1], block[2], block[3]
				path := filepath.Join(tree, name)
				switch {
				case language == "diff":
					applyDiff(t, path, text)
				case name != "":
					writeFile(t, path, text)
				case language == "sh":
					runLines(t, tree, text)
					commands++
				}
				if strings.HasSuffix(name, ".go") {
					checkFormat(t, path)
				}
				if !strings.Contains(name, "_test.go") && !strings.Contains(name, "testdata") && name != "" {
					files[name] = true
				}
			}
			if most := recipeFiles[title]; len(files) > most {
				t.Errorf("it touches %d files, %v; at most %d", len(files), slices.Sorted(maps.Keys(files)), most)
			}
			if commands == 0 {
				t.Error("it runs nothing")
			}
		})
	}
}

func checkFormat(t *testing.T, path string) {
	t.Helper()
	text := mustRead(t, path)
	if formatted, err := format.Source([]byte(text)); err != nil || string(formatted) != text {
		t.Errorf("%s is not as gofmt writes it, error %v", path, err)
	}
}

// copyTree copies the module, without what no recipe needs.
func copyTree(t *testing.T, tree string) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		switch hidden := strings.HasPrefix(entry.Name(), ".") && path != root; {
		case err != nil:
			return err
		case entry.IsDir() && (hidden || name == filepath.Join("docs", "bench")):
			return filepath.SkipDir
		case entry.Type().IsRegular():
			writeFile(t, filepath.Join(tree, name), mustRead(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// applyDiff replaces the lines of a diff that begin with - by those that begin
// with +. The first and the last may be parts of lines.
func applyDiff(t *testing.T, path, diff string) {
	t.Helper()
	var before, after []string
	for line := range strings.Lines(diff) {
		line = strings.TrimSuffix(line, "\n")
		if text, removed := strings.CutPrefix(line, "-"); removed {
			before = append(before, text)
		} else {
			after = append(after, strings.TrimPrefix(line, "+"))
		}
	}
	text, old := mustRead(t, path), strings.Join(before, "\n")
	if strings.Count(text, old) != 1 {
		t.Fatalf("%s has %d times %q; want it once", path, strings.Count(text, old), old)
	}
	writeFile(t, path, strings.Replace(text, old, strings.Join(after, "\n"), 1))
}

// runLines runs commands in the tree, each of which must succeed. They build
// without the race detector, as the page says. go vet is part of make check.
func runLines(t *testing.T, tree, commands string) {
	t.Helper()
	for line := range strings.Lines(commands) {
		cmd := exec.Command("sh", "-c", line)
		cmd.Dir, cmd.Env = tree, append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -vet=off")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("$ %s%v\n%s", line, err, out)
		}
	}
}

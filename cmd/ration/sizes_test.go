package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The most lines that a file and a function may have, and the files of the
// command itself together, which prices, charges and decides nothing.
const (
	maxFileLines     = 400
	maxFunctionLines = 60
	maxCommandLines  = 4500
)

// maxOperators is how many && and || a condition may have, outside of function
// literals in it.
const maxOperators = 2

// maxFields is how many fields of a composite literal one line may set.
const maxFields = 5

// maxAssigned is how many values one assignment may list.
const maxAssigned = 2

// maxComment is how many columns a comment at the left margin has.
const maxComment = 80

// maxColumns is how many columns a line of Go has, where a tab has four.
const maxColumns = 120

func columns(line string) int { return len([]rune(line)) + 3*strings.Count(line, "\t") }

// TestSizes: a file, a function, a condition or an assignment that grew too
// long to be read at once.
func TestSizes(t *testing.T) {
	eachSource(t, func(path, text string) {
		isGo := strings.HasSuffix(path, ".go")
		if n := strings.Count(text, "\n"); n > maxFileLines {
			t.Errorf("%s has %d lines; at most %d, split it by what it holds", path, n, maxFileLines)
		}
		raw := map[int]bool{}
		if isGo {
			raw = rawLines(t, path, text)
		}
		for n, line := range strings.Split(text, "\n") {
			if isGo && columns(line) > maxColumns && !raw[n+1] {
				t.Errorf("%s:%d: more than %d columns; break it", path, n+1, maxColumns)
			}
			if isGo && isProse(line) && len([]rune(line)) > maxComment {
				t.Errorf("%s:%d: a comment of more than %d columns; wrap it", path, n+1, maxComment)
			}
		}
		functions := luaFunctions
		if isGo {
			functions = goFunctions
		}
		for name, lines := range functions(t, path, text) {
			if lines > maxFunctionLines {
				t.Errorf("%s: %s has %d lines; at most %d, name a part of it", path, name, lines, maxFunctionLines)
			}
		}
		if isGo && !strings.HasSuffix(path, "_test.go") {
			for _, at := range longConditions(t, path, text) {
				t.Errorf("%s: a condition of more than %d && and ||; give names to its parts, as booleans or functions",
					at, maxOperators)
			}
			for _, at := range longLiterals(t, path, text) {
				t.Errorf("%s: more than %d fields on one line; break it", at, maxFields)
			}
			for _, at := range longAssignments(t, path, text) {
				t.Errorf("%s: an assignment of more than %d values; give each a line", at, maxAssigned)
			}
		}
	})
}

// isProse reports whether a line is one of a comment at the left margin that
// can be wrapped: no code, and more than one word.
func isProse(line string) bool {
	text, isComment := strings.CutPrefix(line, "// ")
	return isComment && !strings.HasPrefix(text, " ") && strings.Contains(text, " ")
}

// TestCommandIsSmall: what is decided about quota belongs in the packages that
// a library user has too. The packages in internal are not counted: they are
// about terminals, flags and manual pages, have interfaces of their own, and
// decide nothing about quota.
func TestCommandIsSmall(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	lines := 0
	for _, name := range files {
		if !strings.HasSuffix(name, "_test.go") {
			lines += strings.Count(mustRead(t, name), "\n")
		}
	}
	if lines > maxCommandLines {
		t.Errorf("cmd/ration has %d lines; at most %d, move what is not about the command line to quota, costs or jobs",
			lines, maxCommandLines)
	}
}

// eachSource calls check with every Go and Lua file that is neither generated
// nor testdata.
func eachSource(t *testing.T, check func(path, text string)) {
	t.Helper()
	generated := regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)
	files := 0
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && path != root && (strings.HasPrefix(entry.Name(), ".") || entry.Name() == "testdata") {
			return filepath.SkipDir
		}
		if extension := filepath.Ext(path); extension == ".go" || extension == ".lua" {
			if text := mustRead(t, path); !strings.Contains(text, "DO NOT EDIT") || !generated.MatchString(text) {
				files++
				check(filepath.ToSlash(path), text)
			}
		}
		return nil
	})
	if err != nil || files < 100 {
		t.Fatalf("%d source files: %v", files, err)
	}
}

// goFunctions returns how many lines each function of a file has.
func goFunctions(t *testing.T, path, text string) map[string]int {
	t.Helper()
	set, file := parseGo(t, path, text)
	lines := map[string]int{}
	for _, declaration := range file.Decls {
		if f, ok := declaration.(*ast.FuncDecl); ok {
			lines[f.Name.Name] = max(lines[f.Name.Name], linesOf(set, f)+1-tableLines(set, path, f))
		}
	}
	return lines
}

// longLiterals returns where one line sets more than maxFields fields of a
// composite literal.
func longLiterals(t *testing.T, path, text string) (found []string) {
	t.Helper()
	set, file := parseGo(t, path, text)
	ast.Inspect(file, func(n ast.Node) bool {
		literal, _ := n.(*ast.CompositeLit)
		if literal == nil {
			return true
		}
		fields := map[int]int{} // by line
		for _, element := range literal.Elts {
			pair, isPair := element.(*ast.KeyValueExpr)
			if !isPair {
				continue
			}
			line := set.Position(pair.Pos()).Line
			if _, isField := pair.Key.(*ast.Ident); !isField {
				continue
			}
			if fields[line]++; fields[line] == maxFields+1 {
				found = append(found, fmt.Sprintf("%s:%d", path, line))
			}
		}
		return true
	})
	return found
}

// rawLines are the lines of texts in backquotes of several lines: what is
// printed, or read, has its own length.
func rawLines(t *testing.T, path, text string) map[int]bool {
	t.Helper()
	raw := map[int]bool{}
	set, file := parseGo(t, path, text)
	ast.Inspect(file, func(n ast.Node) bool {
		if literal, ok := n.(*ast.BasicLit); ok && linesOf(set, literal) > 0 {
			first := set.Position(literal.Pos()).Line
			for line := first; line <= first+linesOf(set, literal); line++ {
				raw[line] = true
			}
		}
		return true
	})
	return raw
}

func linesOf(set *token.FileSet, n ast.Node) int {
	return set.Position(n.End()).Line - set.Position(n.Pos()).Line
}

// tableLines returns how many lines of a test are values, such as its table of
// cases, which are data.
func tableLines(set *token.FileSet, path string, f *ast.FuncDecl) (lines int) {
	if !strings.HasSuffix(path, "_test.go") {
		return 0
	}
	ast.Inspect(f, func(n ast.Node) bool {
		table, isTable := n.(*ast.CompositeLit)
		if isTable {
			lines += linesOf(set, table)
		}
		return !isTable
	})
	return lines
}

func parseGo(t *testing.T, path, text string) (*token.FileSet, *ast.File) {
	t.Helper()
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return set, file
}

// longConditions returns the places of the conditions of a file that have more
// than maxOperators.
func longConditions(t *testing.T, path, text string) (places []string) {
	t.Helper()
	set, file := parseGo(t, path, text)
	seen := map[ast.Node]bool{} // operators of an outer condition
	ast.Inspect(file, func(condition ast.Node) bool {
		if seen[condition] || !isOperator(condition) {
			return true
		}
		operators := 0
		ast.Inspect(condition, func(part ast.Node) bool {
			if isOperator(part) {
				operators++
				seen[part] = true
			}
			_, isLiteral := part.(*ast.FuncLit)
			return !isLiteral
		})
		if operators > maxOperators {
			places = append(places, fmt.Sprintf("%s:%d", path, set.Position(condition.Pos()).Line))
		}
		return true
	})
	return places
}

// longAssignments returns the places of assignments that list more than
// maxAssigned values.
func longAssignments(t *testing.T, path, text string) (places []string) {
	t.Helper()
	set, file := parseGo(t, path, text)
	for node := range ast.Preorder(file) {
		if a, ok := node.(*ast.AssignStmt); ok && len(a.Rhs) > maxAssigned {
			places = append(places, fmt.Sprintf("%s:%d", path, set.Position(a.Pos()).Line))
		}
	}
	return places
}

func isOperator(n ast.Node) bool {
	b, ok := n.(*ast.BinaryExpr)
	return ok && (b.Op == token.LAND || b.Op == token.LOR)
}

// luaFunctions returns how many lines each function of a file has that begins
// in the first column, where its end stands too, and how many lines of code are
// outside of them.
func luaFunctions(t *testing.T, path, text string) map[string]int {
	t.Helper()
	lines := map[string]int{}
	name, first, outside := "", 0, 0
	all := strings.Split(text, "\n")
	for i, line := range all {
		begins := strings.HasPrefix(line, "local function ")
		switch {
		case begins && !strings.HasSuffix(line, " end"):
			name, _, _ = strings.Cut(strings.TrimPrefix(line, "local function "), "(")
			first = i
		case line == "end" && name != "":
			lines[name], name = i-first+1, ""
		case name == "" && !begins && line != "" && !strings.HasPrefix(line, "--"):
			outside++
		}
	}
	lines["the code outside of functions"] = outside
	return lines
}

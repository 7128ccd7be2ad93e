package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestDrawnTests: a test that draws its cases is missing in the Makefile's
// DRAWN, so make test would draw only a tenth of them.
func TestDrawnTests(t *testing.T) {
	_, drawn, _ := strings.Cut(mustRead(t, filepath.Join("..", "..", "Makefile")), "\nDRAWN = ")
	drawn, _, _ = strings.Cut(drawn, "\n")
	var tests []string // the test that each alternative of DRAWN names
	for alternative := range strings.SplitSeq(strings.ReplaceAll(drawn, "$$", "$"), "|") {
		test, _, _ := strings.Cut(alternative, "/")
		tests = append(tests, test)
	}
	listed, seen := regexp.MustCompile(strings.Join(tests, "|")), 0
	packages := map[string]map[string][]string{} // by folder and function: what it calls
	eachSource(t, func(file, text string) {
		if strings.HasSuffix(file, "_test.go") {
			addCalls(t, packages, file, text)
		}
	})
	for folder, calls := range packages {
		for name := range calls {
			if !strings.HasPrefix(name, "Test") || !draws(calls, name, 3) {
				continue
			}
			if seen++; !listed.MatchString(name) {
				t.Errorf("%s: %s draws its cases; name it in the Makefile's DRAWN", folder, name)
			}
		}
	}
	if seen < 20 {
		t.Errorf("%d tests draw their cases; want 20 at least", seen)
	}
}

// addCalls adds what each function of a file calls: f, or package.f.
func addCalls(t *testing.T, packages map[string]map[string][]string, file, text string) {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, text, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	folder := path.Dir(file)
	if packages[folder] == nil {
		packages[folder] = map[string][]string{}
	}
	for _, declaration := range parsed.Decls {
		f, ok := declaration.(*ast.FuncDecl)
		if !ok || f.Body == nil {
			continue
		}
		ast.Inspect(f.Body, func(n ast.Node) bool {
			if call, ok := n.(*ast.CallExpr); ok {
				packages[folder][f.Name.Name] = append(packages[folder][f.Name.Name], calledName(call))
			}
			return true
		})
	}
}

func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.Ident:
		return f.Name
	case *ast.SelectorExpr:
		if of, ok := f.X.(*ast.Ident); ok {
			return of.Name + "." + f.Sel.Name
		}
	}
	return ""
}

// draws reports whether a function draws cases, by itself or by functions that
// it calls.
func draws(calls map[string][]string, function string, depth int) bool {
	for _, called := range calls[function] {
		if called == "rapid.Check" || called == "ledgertest.Run" || depth > 0 && draws(calls, called, depth-1) {
			return true
		}
	}
	return false
}

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// unlisted are the exported types that have no word in the glossary: plain
// English, a word of Prometheus, or one that its package alone needs.
var unlisted = []string{
	"client.HostStats",
	"costs.Alert", "costs.Date", "costs.List", "costs.ListedRoute", "costs.Setting", "costs.Source",
	"feedback.Class", "feedback.Classification", "feedback.Explanation",
	"inbound.Limiter",
	"jobs.Check", "jobs.Config", "jobs.OutputLine",
	"ledgertest.Clock",
	"redisledger.Severity",
	"sqliteledger.Sync",
	"youtubetest.Arrival", "youtubetest.Data", "youtubetest.Delivery", "youtubetest.Fault", "youtubetest.Model",
	"youtubetest.Server", "youtubetest.Video",
}

// TestExportedTypesAreNamedAfterTheGlossary: each exported type of a package
// that others may import is named after a word of the glossary, so that a new
// one is either such a word or gets one. Errors are named after what failed,
// and Options are Options everywhere.
func TestExportedTypesAreNamedAfterTheGlossary(t *testing.T) {
	glossary := mustRead(t, "../../docs/glossary.md")
	words := map[string]bool{}
	for _, row := range regexp.MustCompile(`(?m)^\| ([^|]+) \|`).FindAllStringSubmatch(glossary, -1) {
		if words[row[1]] {
			t.Errorf("%s has two rows", row[1])
		}
		words[row[1]] = row[1] != "word" // the heading of each table
	}
	found := map[string]bool{}
	for _, folder := range packages() {
		if folder == "cmd/ration" || strings.HasPrefix(folder, "internal/") {
			continue
		}
		for _, name := range exportedTypes(t, folder) {
			qualified := filepath.Base(folder) + "." + name
			if name == "Options" || strings.HasSuffix(name, "Error") || hasWord(words, name) ||
				strings.Contains(glossary, "`"+qualified+"`") {
				continue
			}
			found[qualified] = true
			if !slices.Contains(unlisted, qualified) {
				t.Errorf("%s has no word in docs/glossary.md: name it after one, or add its word", qualified)
			}
		}
	}
	for _, name := range unlisted {
		if !found[name] {
			t.Errorf("%s is in the glossary, or is not a type any more: take it out of unlisted", name)
		}
	}
}

// TestQuotasDocNamesEachType: go doc lists the exported types of quota by name
// only, so the package's comment says which are for callers, which are for
// authors of ledgers, and what each is for.
func TestQuotasDocNamesEachType(t *testing.T) {
	doc := mustRead(t, "../../quota/doc.go")
	for _, name := range exportedTypes(t, "quota") {
		if !strings.Contains(doc, "["+name+"]") {
			t.Errorf("quota/doc.go lacks [%s]; name it in the chapter of those who need it", name)
		}
	}
}

// hasWord reports whether a part of a type's name is a word, perhaps in
// the plural.
func hasWord(words map[string]bool, name string) bool {
	parts := regexp.MustCompile(`[A-Z]+[a-z0-9]*`).FindAllString(name, -1)
	parts = append(parts, strings.Join(parts, " "))
	return slices.ContainsFunc(parts, func(part string) bool {
		part = strings.ToLower(part)
		return words[part] || words[strings.TrimSuffix(part, "s")]
	})
}

// exportedTypes returns the names of the exported types of a package.
func exportedTypes(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", folder, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files, %v", folder, len(files), err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for node := range ast.Preorder(file) {
			if spec, ok := node.(*ast.TypeSpec); ok && spec.Name.IsExported() {
				names = append(names, spec.Name.Name)
			}
		}
	}
	return names
}

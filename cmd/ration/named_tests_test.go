package main

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocsNameTestsThatExist: go test -run passes where no test has the name,
// so a row of docs/track-record.md or docs/faults.md would show nothing.
func TestDocsNameTestsThatExist(t *testing.T) {
	tests := map[string][]string{} // by folder
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(t \*testing\.T\)`)
	eachSource(t, func(file, text string) {
		folder, _ := strings.CutPrefix(path.Dir(file), "../..")
		for _, match := range declared.FindAllStringSubmatch(text, -1) {
			tests["."+folder] = append(tests["."+folder], match[1])
		}
	})
	exists := func(in, pattern string) bool {
		inner, below := strings.CutSuffix(in, "/...")
		for folder, names := range tests {
			isNamed := folder == inner || below && strings.HasPrefix(folder, inner+"/")
			if isNamed && slices.ContainsFunc(names, regexp.MustCompile(pattern).MatchString) {
				return true
			}
		}
		return false
	}
	docs := filepath.Join("..", "..", "docs")
	named := regexp.MustCompile("`(Test[A-Z]\\w+)").FindAllStringSubmatch(mustRead(t, filepath.Join(docs, "faults.md")),
		-1)
	for _, match := range named {
		if !exists("./...", "^"+match[1]+"$") {
			t.Errorf("faults.md: there is no %s", match[1])
		}
	}
	command := regexp.MustCompile("`go test (?:-race )?([^`]+?) -run '?([^'` ]+)'?[^`]*`")
	commands := command.FindAllStringSubmatch(mustRead(t, filepath.Join(docs, "track-record.md")), -1)
	for _, match := range commands {
		for pattern := range strings.SplitSeq(match[2], `\|`) {
			pattern, _, _ = strings.Cut(pattern, "/")
			if !slices.ContainsFunc(strings.Fields(match[1]), func(in string) bool { return exists(in, pattern) }) {
				t.Errorf("track-record.md: there is no test %s in %s", pattern, match[1])
			}
		}
	}
	if len(named) < 5 || len(commands) < 15 {
		t.Errorf("%d tests of faults.md and %d commands of track-record.md were looked for; want 5 and 15 at least",
			len(named), len(commands))
	}
}

package redisledger

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// LeastRights returns the ACL rules of docs/redis.md for a user with the fewest
// rights and the password s3cret.
func LeastRights(t *testing.T) (rights []any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "redis.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "ACL SETUSER ration ")
	command, _, ends := strings.Cut(rest, "```")
	if !found || !ends {
		t.Fatal("docs/redis.md names no rights")
	}
	for _, word := range strings.Fields(strings.ReplaceAll(command, "\\\n", " ")) {
		rights = append(rights, strings.ReplaceAll(word, "PASSWORD", "s3cret"))
	}
	return rights
}

// ScriptsCall reports whether any script calls a command.
func ScriptsCall(t *testing.T, command string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("lua", "*.lua"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%d scripts, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "call('"+strings.ToUpper(command)+"'") {
			return true
		}
	}
	return false
}

// CheckVersion returns what Inspect says of a version.
func CheckVersion(version string) []Finding {
	i := inspection{info: map[string]string{"redis_version": version}}
	i.version()
	return i.found
}

package testledger

import (
	"bytes"
	"compress/gzip"
	"embed"
	"io"
	"strconv"
	"strings"
	"testing"
)

//go:embed testdata
var testdata embed.FS

// OldFile returns the SQLite file that an earlier release has written:
// "first-release" or "second-release".
func OldFile(t testing.TB, release string) []byte {
	t.Helper()
	unpacked, err := gzip.NewReader(bytes.NewReader(read(t, release+".db.gz")))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(unpacked)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// OldCommands returns the commands that write what an earlier release has
// written to Redis.
func OldCommands(t testing.TB, release string) (commands [][]any) {
	t.Helper()
	for line := range strings.Lines(string(read(t, release+".redis"))) {
		var args []any
		for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
			word, err := strconv.QuotedPrefix(line)
			if err != nil {
				t.Fatal(err)
			}
			line = line[len(word):]
			word, _ = strconv.Unquote(word)
			args = append(args, word)
		}
		commands = append(commands, args)
	}
	return commands
}

func read(t testing.TB, name string) []byte {
	t.Helper()
	content, err := testdata.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

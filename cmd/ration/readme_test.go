package main

import (
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// TestReadme runs the commands of the README's console blocks, in order, on
// the shipped files, and holds what they print against what it shows. Numbers
// and instants differ from run to run, words do not.
func TestReadme(t *testing.T) {
	readme := mustRead(t, filepath.Join("..", "..", "README.md"))
	web := httptest.NewServer(youtubetest.New(nil))
	defer web.Close()
	dir := t.TempDir()
	for _, name := range []string{"costs.yaml", "regions.yaml"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(mustRead(t, filepath.Join("..", "..", name))), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "ration")); err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), asRation+"=1", "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "RATION_CONFIG="+dir, "RATION_STATE="+dir,
		"RATION_ENDPOINT="+web.URL, "RATION_LEDGER=sqlite:"+filepath.Join(dir, "ration.db"), "YOUTUBE_API_KEY=k")
	ran := 0
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(readme, -1) {
		for _, part := range strings.Split("\n"+block[1], "\n$ ")[1:] {
			command, shown, _ := strings.Cut(part, "\n")
			cmd := exec.Command("sh", "-c", command)
			cmd.Dir, cmd.Env = dir, env
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("$ %s\n%v: %s", command, err, out)
			}
			ran++
			printed := strings.ReplaceAll(string(out), dir, "/srv/ration")
			t.Logf("$ %s\n%s", command, printed) // what the README is to show
			if got, want := words(printed), words(shown); shown != "" && !slices.Equal(got, want) {
				t.Errorf("$ %s prints\n%s\nthe README shows\n%s", command, printed, shown)
			}
		}
	}
	if ran < 6 {
		t.Errorf("the README has %d commands; want its six at least", ran)
	}
}

// words returns the lines of an output without what differs from run to run:
// numbers, widths, and the order of a list that is sorted by them.
func words(s string) []string {
	numbers := regexp.MustCompile(`[0-9]+`)
	durations := regexp.MustCompile(`\(in [^)]*\)`)
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(s)) {
		line = numbers.ReplaceAllString(durations.ReplaceAllString(line, "(in …)"), "N")
		fields := strings.Fields(strings.ReplaceAll(line, ",", " "))
		slices.Sort(fields)
		lines = append(lines, strings.Join(fields, " "))
	}
	return lines
}

package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// TestReadme runs the commands of the console blocks of the README and of
// pages of docs, in order, on the shipped files, and holds what they print
// against what the page shows. Numbers, times and ids
// differ from run to run, words do not: the processes begin at midday, since
// within half a minute of midnight some commands rightly say something else.
func TestReadme(t *testing.T) {
	for page, commands := range map[string]int{"docs/operating.md": 12, "docs/gateway.md": 8, "docs/faults.md": 8} {
		t.Run(page, func(t *testing.T) {
			shift := shiftTo(t, midday)
			upstream := youtubetest.New(&youtubetest.Options{Now: func() time.Time { return time.Now().Add(shift) }})
			files := map[string]string{}
			for _, name := range []string{"costs.yaml", "regions.yaml"} {
				files[name] = mustRead(t, filepath.Join("..", "..", name))
			}
			runPage(t, filepath.Join("..", "..", page), commands, shift, upstream, files)
		})
	}
	t.Run("README.md", func(t *testing.T) { // on the costs.yaml that it shows
		page := filepath.Join("..", "..", "README.md")
		table := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(mustRead(t, page))[1]
		upstream := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_,
				_ = io.WriteString(w, "{\"items\":[]}\n")
		})
		runPage(t, page, 4, shiftTo(t, midday), upstream, map[string]string{"costs.yaml": table})
	})
}

// TestExamplesPassNoTokenInArguments: examples passed tokens and keys in the
// arguments of curl, where every user of the host can read them.
func TestExamplesPassNoTokenInArguments(t *testing.T) {
	for place, text := range map[string]string{"docs/gateway.md": mustRead(t,
		filepath.Join("..", "..", "docs", "gateway.md")), "exec": newApp().execCommand().Example} {
		if !strings.Contains(text, "curl") {
			t.Errorf("%s: no example of curl", place)
		}
		if argument := regexp.MustCompile(`-H "[^"]*\$[^"]*"`).FindString(text); argument != "" {
			t.Errorf("%s: %s; give it with -H @-", place, argument)
		}
	}
}

func runPage(t *testing.T, page string, commands int, shift time.Duration, upstream http.Handler,
	files map[string]string) {
	text := mustRead(t, page)
	web := httptest.NewServer(upstream)
	defer web.Close()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	linkRation(t, dir)
	env := append(os.Environ(), asRation+"=1", "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "RATION_CONFIG="+dir,
		"RATION_STATE="+dir,
		"RATION_HOST=host-1", "RATION_ENDPOINT="+web.URL, "RATION_LEDGER=sqlite:"+filepath.Join(dir, "ration.db"),
		"YOUTUBE_API_KEY=k", shiftEnv+"="+shift.String())
	ran := 0
	for _, block := range regexp.MustCompile("(?s)```console\n(.*?)```").FindAllStringSubmatch(text, -1) {
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
			t.Logf("$ %s\n%s", command, printed) // what the page is to show
			if got, want := words(printed), words(shown); shown != "" && !slices.Equal(got, want) {
				t.Errorf("$ %s prints\n%s\nthe page shows\n%s", command, printed, shown)
			}
		}
	}
	if ran < commands {
		t.Errorf("the page has %d commands; want its %d at least", ran, commands)
	}
}

// TestFirstRun runs the commands of docs/running.md for a first run. A server
// of the test takes the place of ration fake, which
// TestFakeYouTubeIsAskedByAnyProgram starts.
func TestFirstRun(t *testing.T) {
	web := httptest.NewServer(youtubetest.New(&youtubetest.Options{Model: youtubetest.Since2026}))
	defer web.Close()
	block := regexp.MustCompile("(?s)```sh\ngo install [^\n]*\n(.*?)```").FindStringSubmatch(mustRead(t,
		filepath.Join("..", "..", "docs", "running.md")))[1]
	commands := strings.NewReplacer("ration fake youtube &\n", "", "http://127.0.0.1:8378", web.URL).Replace(block)
	home, bin := t.TempDir(), t.TempDir()
	linkRation(t, bin)
	cmd := exec.Command("sh", "-ec", commands)
	cmd.Dir, cmd.Env = home, append(os.Environ(), asRation+"=1", "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+home,
		"XDG_STATE_HOME=", "XDG_DATA_HOME=", "XDG_CONFIG_HOME=", "RATION_CONFIG=", "RATION_LEDGER=")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "method videos.list") || strings.Contains(string(out), "warning") {
		t.Errorf("%s\n%v: %s\nwant a status that shows calls, and no warning", commands, err, out)
	}
	if entries, err := os.ReadDir(home); err != nil || len(entries) != 1 {
		t.Errorf("%v, %v in the home folder; want the folder try alone", entries, err)
	}
}

// linkRation makes this test binary the program ration in dir; it needs
// asRation.
func linkRation(t *testing.T, dir string) {
	t.Helper()
	self, err := filepath.Abs(os.Args[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(dir, "ration")); err != nil {
		t.Fatal(err)
	}
}

// words returns the lines of an output without what differs from run to run:
// numbers, ids, how long ago or from now, widths, and the order of a list that
// is sorted by them.
func words(s string) []string {
	numbers := regexp.MustCompile(`[0-9]+`)
	varying := regexp.MustCompile(`\(in [0-9a-z]+\)|\b[0-9a-z]+ (ago|later)\b|\b[0-9a-f]{12}\b|"A[A-Za-z0-9_-]{30,}"`)
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(s)) {
		line = numbers.ReplaceAllString(varying.ReplaceAllString(line, "…"), "N")
		fields := strings.Fields(strings.ReplaceAll(line, ",", " "))
		slices.Sort(fields)
		lines = append(lines, strings.Join(fields, " "))
	}
	return lines
}

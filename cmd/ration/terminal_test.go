package main

import (
	"io"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/jedib0t/go-pretty/v6/text"

	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// onTerminal runs a command on a terminal with the given columns and returns
// what it printed.
func onTerminal(t *testing.T, columns uint16, cmd *exec.Cmd) (printed string, code int) {
	t.Helper()
	cmd.Env = append(cmd.Env, "COLUMNS=", "TERM=xterm", "NO_COLOR=")
	terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 40, Cols: columns})
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	out, _ := io.ReadAll(terminal) // ends with EIO when the command does
	return strings.ReplaceAll(string(out), "\r\n", "\n"), exitCode(cmd.Wait())
}

func skipsTerminals() bool { return runtime.GOOS == "windows" }

// TestTablesFitTheTerminalAndKeepTheirWords runs every command that prints a
// table on terminals of several widths. No line is wider, and every number and
// time of the unlimited output is there in one piece.
func TestTablesFitTheTerminalAndKeepTheirWords(t *testing.T) {
	if testing.Short() {
		t.Skip("starts 42 processes on terminals")
	}
	if skipsTerminals() {
		return
	}
	s := newStand(t, nil,
		"{name: youtube, limit: 9500, window: 24h}, {name: youtube-day, limit: 9500, window: {day: "+
			"America/Los_Angeles}}, "+
			"{name: youtube-search, limit: 700, window: 24h, methods: [search.list]}",
		"[trending, {search: {queries: [music]}}, channels, categories]", eight...)
	if code, out, text := s.run(t, nil, "run"); code != exitStopped {
		t.Fatalf("the run ends with %d: %s%s; want it stopped by the budget of searches", code, out, text)
	}
	numbers := regexp.MustCompile(`[+#]?[0-9][0-9.:TZ-]*`)
	soon := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	ahead := regexp.MustCompile(`\((in )?[0-9a-z]+( ago)?\)|[0-9a-z]+ later`) // it moves on between two runs
	for _, args := range [][]string{
		{"status", "--at", soon}, {"log", "--last", "8"}, {"log", "--by", "region"}, {"log", "--by", "method"},
		{"costs"}, {"costs", "presets"}, {"why"},
		{"plan", "--fresh"}, {"plan", "--fresh", "-v", "--at", "2035-05-05T05:05:05Z"}, {"ledger", "info"},
		{"cooldown", "list"}, {"doctor"},
		{"search", "music"}, {"run", "-v"},
	} {
		_, unlimited, _ := s.run(t, nil, args...)
		for _, columns := range []uint16{60, 80, 200} {
			printed, _ := onTerminal(t, columns, s.command(args...))
			if printed == "" {
				t.Errorf("%v prints nothing on %d columns", args, columns)
			}
			whole := numbers.FindAllString(printed, -1)
			for _, number := range numbers.FindAllString(ahead.ReplaceAllString(unlimited, ""), -1) {
				if args[0] != "plan" && args[0] != "run" && !slices.Contains(whole, number) {
					t.Errorf("%v: %s is not there in one piece on %d columns:\n%s", args, number, columns, printed)
					break
				}
			}
			for line := range strings.Lines(printed) {
				// paths are not broken, nor are errors
				one := strings.Contains(line, s.dir) || strings.Contains(line, "\x1b") ||
					strings.HasPrefix(line, "ration: ")
				if width := text.StringWidthWithoutEscSequences(strings.TrimRight(line, "\n")); width > int(columns) &&
					!one {
					t.Errorf("%v: a line of %d columns on a terminal of %d: %q", args, width, columns, line)
				}
			}
		}
	}
}

// TestColumnsSetsTheWidth checks that COLUMNS sets the width with and without a
// terminal, and that a malformed value is ignored.
func TestColumnsSetsTheWidth(t *testing.T) {
	for value, want := range map[string]int{"60": 60, "": 80, "0": 80, "-5": 80, "wide": 80} {
		a := &app{getenv: func(string) string { return value }, columns: func() int { return 80 }}
		if got := a.width(); got != want {
			t.Errorf("COLUMNS=%q: width %d; want %d", value, got, want)
		}
	}
	if got := (&app{getenv: func(string) string { return "" }}).width(); got != 0 {
		t.Errorf("width %d off a terminal; want no limit", got)
	}
}

// TestAStoppedRegionIsNotShownAsFailed runs on a terminal, on a budget that
// stops it and then on an upstream that fails.
func TestAStoppedRegionIsNotShownAsFailed(t *testing.T) {
	if skipsTerminals() {
		return
	}
	s := newStand(t, nil, "{name: all, limit: 2, window: 24h, methods: [videos.list]}", "[{trending: {pages: 4}}]",
		"US")
	printed, code := onTerminal(t, 80, s.command("run"))
	if code != exitStopped || strings.Contains(printed, "fail") || !strings.Contains(printed, "US stopped") {
		t.Errorf("a run that a budget stops exits with %d and shows %q", code, printed)
	}
	s = newStand(t, nil, "{name: all, limit: 9000, window: 24h}", "[{trending: {pages: 4}}]", "US")
	s.upstream.Fail(youtubetest.Fault{Method: "videos.list", Status: 400, Reason: "badRequest"})
	if printed, code = onTerminal(t, 80, s.command("run")); code != exitFailed || !strings.Contains(printed, "failed") {
		t.Errorf("a run that fails exits with %d and shows %q", code, printed)
	}
}

package feedback_test

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/feedback"
)

var update = flag.Bool("update", false, "write the verdicts of testdata/answers")

// TestAnswersOfEveryDialect reads testdata/answers: one folder a dialect, one
// answer a file, as curl -i prints it. Lines before it say what was called,
// which budgets there are, and the verdict.
func TestAnswersOfEveryDialect(t *testing.T) {
	paths, err := filepath.Glob("testdata/answers/*/*.http")
	if err != nil || len(paths) < 80 {
		t.Fatalf("%d answers: %v", len(paths), err)
	}
	var dialects []string
	for _, path := range paths {
		dialect := filepath.Base(filepath.Dir(path))
		dialects = append(dialects, dialect)
		t.Run(dialect+"/"+filepath.Base(path), func(t *testing.T) {
			g := readGolden(t, path)
			read, err := feedback.New(dialect, feedback.Options{Budgets: g.budgets, Now: clock(noon)})
			if err != nil {
				t.Fatal(err)
			}
			got := describe(read(g.call, g.resp))
			if *update {
				text := strings.Replace(g.text, "# verdict: "+g.verdict+"\n", "# verdict: "+got+"\n", 1)
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			} else if got != g.verdict {
				t.Errorf("got  %s\nwant %s", got, g.verdict)
			}
		})
	}
	for _, name := range feedback.Names() {
		if !slices.Contains(dialects, name) {
			t.Errorf("testdata/answers has no answer of %s", name)
		}
	}
}

// golden is a file of testdata/answers.
type golden struct {
	text, verdict string
	call          quota.Call
	budgets       []quota.Budget
	resp          *http.Response
}

func readGolden(t *testing.T, path string) (g golden) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	g.text = string(data)
	rest, verb, target := g.text, "", ""
	for strings.HasPrefix(rest, "#") {
		var line string
		line, rest, _ = strings.Cut(rest, "\n")
		key, value, _ := strings.Cut(strings.TrimPrefix(line, "# "), ": ")
		switch key {
		case "call":
			request, priced, _ := strings.Cut(value, ", ")
			verb, target, _ = strings.Cut(request, " ")
			method, units, _ := strings.Cut(priced, " ")
			n, err := strconv.ParseInt(units, 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			g.call = quota.Call{Account: "a", Method: method, Units: quota.Units(n)}
		case "budgets":
			g.budgets = parseBudgets(t, value)
		case "verdict":
			g.verdict = value
		}
	}
	head, body, _ := strings.Cut(rest, "\n\n")
	req, err := http.NewRequest(verb, "https://api.example.com"+target, nil)
	if err != nil {
		t.Fatal(err)
	}
	raw := head + fmt.Sprintf("\nContent-Length: %d\n\n%s", len(body), body)
	g.resp, err = http.ReadResponse(bufio.NewReader(strings.NewReader(raw)), req)
	if err != nil {
		t.Fatal(err)
	}
	text, _ := io.ReadAll(g.resp.Body)
	g.resp.Body = io.NopCloser(bytes.NewReader(text))
	return g
}

// parseBudgets reads name=limit/window[/method[/count]].
func parseBudgets(t *testing.T, text string) (budgets []quota.Budget) {
	t.Helper()
	for _, one := range strings.Split(text, ", ") {
		name, spec, _ := strings.Cut(one, "=")
		parts := append(strings.Split(spec, "/"), "", "")
		limit, err := strconv.ParseInt(parts[0], 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		b := quota.Budget{Account: "a", Name: name, Limit: quota.Units(limit)}
		switch parts[1] {
		case "day":
			b.Window = quota.Daily(time.UTC)
		case "month":
			b.Window = quota.Monthly(time.UTC)
		case "in_flight":
			b.Window = quota.InFlight(time.Minute)
		case "bucket":
			b.Window = quota.Bucket(1, time.Second)
		default:
			length, err := time.ParseDuration(parts[1])
			if err != nil {
				t.Fatal(err)
			}
			b.Window = quota.Sliding(length)
		}
		if parts[2] != "" {
			b.Methods = []string{parts[2]}
		}
		if parts[3] == "calls" {
			b.Measure = quota.Calls
		}
		budgets = append(budgets, b)
	}
	return budgets
}

// describe returns a verdict in a line.
func describe(v quota.Verdict) string {
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	if v.Free {
		add("free")
	}
	if v.Settled {
		add("cost %d", v.Units)
	}
	if v.Never {
		add("blocked: %s", v.Reason)
	} else if v.For > 0 {
		scope := "the account"
		if v.Budget != "" {
			scope = v.Budget
		}
		if v.OfKey {
			scope += ", of the key,"
		}
		upTo := ""
		if v.UpTo > 0 {
			upTo = fmt.Sprintf(", doubling to %s", v.UpTo)
		}
		add("stop %s for %s%s (%s)", scope, v.For, upTo, v.Reason)
	}
	if v.Unexplained {
		add("not understood")
	}
	if v.LeftOf != "" {
		add("%d left of %s", v.Left, v.LeftOf)
	}
	for _, also := range v.AlsoLeft {
		if also.Budget != "" {
			add("%d left of %s", also.Left, also.Budget)
		}
	}
	if v.Transient {
		add("retry")
	}
	return strings.Join(parts, "; ")
}

// TestDialectSaysWhereItsFactsComeFrom: a document that was not read is not
// said to be.
func TestDialectSaysWhereItsFactsComeFrom(t *testing.T) {
	for _, d := range feedback.Dialects() {
		origin := d.Origin()
		if d.Read == "" {
			if !strings.HasSuffix(origin, "; not read: from "+d.From) {
				t.Errorf("%s: %s", d.Name, origin)
			}
			continue
		}
		if _, err := time.Parse(time.DateOnly, d.Read); err != nil || !strings.Contains(origin, ", read "+d.Read) {
			t.Errorf("%s: %s (%v)", d.Name, origin, err)
		}
	}
}

package jobs_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/command"
	"github.com/ration-dev/ration/jobs"
)

// acme is the costs.yaml of an upstream without an api, without its budgets.
const acme = "version: 1\nupstream: acme\naccount: acme\ncosts: {items.list: 1, items.search: 5}\nbudgets:\n"

func TestParseReadsPrograms(t *testing.T) {
	dir := t.TempDir()
	config, err := jobs.Parse(filepath.Join(dir, "regions.yaml"), []byte(`version: 1
schedule: "@daily"
timezone: Asia/Kolkata
fetch:
  - command: [./fetch.py, --market, "{region}", "", "a\nb"]
    job: market
    calls: {items.search: 2, items.list: 40}
    timeout: 20m
  - command: ../bin/{region}-post
  - command: [sh, -c, "echo {{}}"]
    calls: {}
    timeout: 5
regions:
  emea: {}
  shard-1: {fetch: [command: /usr/bin/true]}
`), nil)
	if err != nil {
		t.Fatal(err)
	}
	at := func(line, column int) string {
		return fmt.Sprintf("%s:%d:%d", filepath.Join(dir, "regions.yaml"), line, column)
	}
	want := []*command.Program{
		{Args: []string{"./fetch.py", "--market", "{region}", "", "a\nb"}, Job: "market", Timeout: 20 * time.Minute,
			Dir: dir, Place: at(5, 14),
			Calls: []command.Calls{{Method: "items.search", Most: 2}, {Method: "items.list", Most: 40}}},
		{Args: []string{"../bin/{region}-post"}, Job: "emea-post", Timeout: time.Hour, Dir: dir, Place: at(9, 14)},
		{Args: []string{"sh", "-c", "echo {{}}"}, Job: "sh", Timeout: 5 * time.Second, Dir: dir, Place: at(10, 14)},
		{Args: []string{"/usr/bin/true"}, Job: "true", Timeout: time.Hour, Dir: dir, Place: at(15, 30)},
	}
	var got []*command.Program
	for _, region := range config.Regions {
		for _, step := range region.Steps {
			if step.Kind != jobs.Command || step.Pages != 1 || step.Name() != step.Program.Job {
				t.Errorf("step %+v; want one run of %s", step, step.Program.Job)
			}
			got = append(got, step.Program)
		}
	}
	for i := range want {
		if i >= len(got) || !reflect.DeepEqual(got[i], want[i]) {
			t.Errorf("program %d is %+v; want %+v", i, got[i], want[i])
		}
	}
	if jobs.FetchesYouTube(config.Regions) {
		t.Error("a YouTube step in a file without one")
	}
}

func TestParseReportsMistakesInPrograms(t *testing.T) {
	table, err := costs.Parse("costs.yaml", []byte(acme+"  - {name: all, limit: 100, window: 24h}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for fetch, want := range map[string]string{
		"[command]":           "3:9: command needs a program: write command: [./fetch.sh]",
		"[{command: }]":       "3:18: command is empty: write a list, [first, second]",
		"[command: []]":       "3:18: command is empty: write command: [./fetch.sh]",
		`[command: ""]`:       "3:18: command names no program: write command: [./fetch.sh]",
		`[command: [" ", a]]`: "3:19: command names no program: write command: [./fetch.sh]",
		"[command: ./f --market 5]": `3:18: command is a line, and no shell splits it: write a list,` +
			` command: [./f, --market, "5"]`,
		"[command: sh -c true]": `3:18: command is a line, and no shell splits it: write a list,` +
			` command: [sh, -c, "true"]`,
		`[command: "./f null *x ~ #"]`: `3:18: command is a line, and no shell splits it: write a list,` +
			` command: [./f, "null", "*x", "~", "#"]`,
		`[command: "./f {region}"]`: `3:18: command is a line, and no shell splits it: write a list,` +
			` command: [./f, "{region}"]`,
		"[command: {a: 1}]": "3:18: command is a map: write a list, [first, second]",
		"[command: [./f, {region}]]": `3:24: an item of command is a map: write it in quotes, such ` +
			`as "{region}"`,
		"[command: [./f, 5]]": "3:24: an item of command is 5: write it in quotes if a text " +
			"is meant",
		`[command: [./f, "{regoin}"]]`: `3:24: unknown placeholder "{regoin}": write {region}`,
		`[command: [./f, "{"]]`: `3:24: a single "{": write {region}, {tick} or {zone}, or {{ ` +
			`for the brace itself`,
		`[command: ["./f-{tick}"]]`: "3:19: {tick} is in the name of the program: write it in an " +
			"argument",
		"[{command: [f], jobb: x}]": `3:24: unknown key "jobb": write job`,
		"[{command: [f], trending: {}}]": `3:24: unknown key "trending": write one of command, job, ` +
			`calls, timeout`,
		"[{job: x}]": `3:10: unknown step "job": write one of trending, search, ` +
			`channels, categories, command`,
		"[{command: [f], calls: {item.list: 1}}]": `3:32: "item.list" is not a known method; write items.list`,
		"[trending: {pages: 2}]": "3:9: trending calls videos.list of YouTube, which has no cost " +
			"in costs.yaml: add it, as preset: youtube/2026-06 does",
		"[{command: [f], calls: {items.list: 0}}]": "3:44: items.list is 0: write an integer from 1 to 1000000",
		"[{command: [f], calls: 5}]":               "3:31: calls is 5: write a map, key: value",
		"[{command: [f], timeout: 0s}]": `3:33: timeout is "0s": write a duration from 1s to 24h, such ` +
			`as 24h, 10m or 30s`,
		"[{command: [f], command: [g]}]": `3:24: repeated key "command": remove one`,
		"[command: [./a/f], {command: [./b/f]}]": "3:37: f is fetched twice: remove one, or tell them apart with " +
			"job",
		"[{command: [f], job: trending}, trending]": "3:40: trending is fetched twice: remove one",
	} {
		_, err := jobs.Parse("regions.yaml",
			[]byte("version: 1\nschedule: '@daily'\nfetch: "+fetch+"\nregions: {US: {}, GB: {}}\n"), table.CheckFetched)
		got, _, _ := strings.Cut(fmt.Sprint(err), "\n")
		if got != "regions.yaml:"+want {
			t.Errorf("%s: got\n%v\nwant\nregions.yaml:%s", fetch, err, want)
		}
	}
}

// TestRegionNamesAreFreeWithoutYouTube: they are free where no YouTube step is
// used.
func TestRegionNamesAreFreeWithoutYouTube(t *testing.T) {
	const file = "version: 1\nschedule: '@daily'\nfetch: [command: ./f]\nregions: {%s: {%s}, apac: {}}\n"
	for name, want := range map[string]string{
		"emea": "", "eu": "", "UK": "", "north_2.b-c": "", "'1'": "",
		"-a": `4:11: malformed region "-a"`, "a b": `4:11: malformed region "a b"`, "é": `4:11: malformed region "é"`,
		"APAC": "4:21: region apac differs from APAC in case only: rename one",
	} {
		_, err := jobs.Parse("regions.yaml", fmt.Appendf(nil, file, name, ""), nil)
		if want == "" && err != nil || !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v; want %q", name, err, want)
		}
	}
	_, err := jobs.Parse("regions.yaml", fmt.Appendf(nil, file, "emea", "fetch: [{command: ./f}, categories]"), nil)
	if want := `regions.yaml:4:11: unknown region "emea": write its two capital letters ` +
		`as in ISO 3166-1, such as US`; fmt.Sprint(err) != want {
		t.Errorf("with a YouTube step: %v; want %s", err, want)
	}
}

func TestCheckProgramsListsWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	config, err := jobs.Parse(filepath.Join(dir, "regions.yaml"),
		[]byte("version: 1\nschedule: '@daily'\nfetch: [{command: './{region}'}, {command: /no/such/one}]\nregions: "+
			"{emea: {}, apac: {}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "emea"), []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	err = jobs.CheckPrograms(config.Regions)
	if text := fmt.Sprint(err); strings.Count(text, "\n") != 1 ||
		!strings.Contains(text, "regions.yaml:3:19: no program "+dir+"/apac") ||
		!strings.Contains(text, "regions.yaml:3:44: no program /no/such/one") {
		t.Errorf("got %v; want the program of apac, and once the one that nobody has", err)
	}
}

// TestDocumentedProgramsAreParsed reads the regions.yaml of docs/programs.md.
func TestDocumentedProgramsAreParsed(t *testing.T) {
	_, rest, _ := strings.Cut(string(shipped(t, "../docs/programs.md")), "```yaml\n")
	text, _, _ := strings.Cut(rest, "```")
	config, err := jobs.Parse("regions.yaml", []byte(text), nil)
	if err != nil || len(config.Regions) != 2 || len(config.Regions[0].Steps) != 2 {
		t.Errorf("%+v, %v; want two regions of two steps in\n%s", config, err, text)
	}
}

package strictyaml_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/google/go-cmp/cmp"
	"github.com/ration-dev/ration/internal/files"
	"github.com/ration-dev/ration/internal/strictyaml"
)

// sample has one key of each kind.
type sample struct {
	Count int64
	Name  string
	Color string
	Every time.Duration
	Wait  time.Duration
	Zone  string
	Items []string
	Costs map[string]int64
}

func (s *sample) read(n strictyaml.Node) {
	n.Fields(
		strictyaml.Field{Key: "count", Missing: "count: 1", Read: func(n strictyaml.Node) { s.Count = n.Int(1, 100) }},
		strictyaml.Field{Key: "name", Read: func(n strictyaml.Node) { s.Name = n.Text(10) }},
		strictyaml.Field{Key: "color",
			Read: func(n strictyaml.Node) { s.Color = n.OneOf("color", []string{"red", "green"}) }},
		strictyaml.Field{Key: "every",
			Read: func(n strictyaml.Node) { s.Every = n.Duration(time.Second, 48*time.Hour) }},
		strictyaml.Field{Key: "wait", Read: func(n strictyaml.Node) { s.Wait = n.Seconds(0, 24*time.Hour) }},
		strictyaml.Field{Key: "zone", Read: func(n strictyaml.Node) {
			if zone := n.Zone(); zone != nil {
				s.Zone = zone.String()
			}
		}},
		strictyaml.Field{Key: "items", Read: func(n strictyaml.Node) {
			n.Items(func(n strictyaml.Node) { s.Items = append(s.Items, n.Text(10)) })
		}},
		strictyaml.Field{Key: "costs", Read: func(n strictyaml.Node) {
			s.Costs = map[string]int64{}
			n.Entries(func(key, value strictyaml.Node) { s.Costs[key.Text(10)] = value.Int(1, 9) })
		}},
	)
}

func read(text string) ([]sample, error) {
	file := strictyaml.Parse("f.yaml", []byte(text))
	var all []sample
	for _, document := range file.Documents() {
		var s sample
		s.read(document)
		all = append(all, s)
	}
	return all, file.Err()
}

func TestPlainFilesAreRead(t *testing.T) {
	whole := sample{Count: 7, Name: "a b", Color: "red", Every: 24 * time.Hour, Zone: "America/Los_Angeles",
		Items: []string{"x", "10"}, Costs: map[string]int64{"a": 1, "b": 2}}
	block := "# head\ncount: 7 # why\nname: a b\ncolor: red\nevery: 24h\nzone: America/Los_Angeles\nitems:\n  - x\n " +
		" # between\n  - \"10\"\ncosts:\n  a: 1\n  b: 2\n"
	flow := `{count: 7, name: "a b", color: 'red', every: 24h, zone: America/Los_Angeles, items: [x, '10'], costs: ` +
		`{a: 1, b: 2}}`
	for name, text := range map[string]string{"block": block, "flow": flow,
		"windows": "\ufeff" + strings.ReplaceAll(block, "\n", "\r\n"), "marked": "---\n" + block + "...\n"} {
		got, err := read(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff([]sample{whole}, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	got, err := read("count: 1\n---\ncount: 2\n# no more\n---\ncount: 3\n")
	if err != nil || len(got) != 3 || got[2].Count != 3 {
		t.Errorf("three documents: %v, %v", got, err)
	}
}

// syntax follows what the parser says of a mistake.
const syntax = ": correct the colons, quotes or indentation of this line or the one above"

func TestMistakesHaveAPlaceAndAdvice(t *testing.T) {
	key := "AIza" + strings.Repeat("x", 35)
	for _, c := range []struct{ text, want string }{
		{"", "1:1: the file is empty: write version: 1 and what follows it"},
		{"# only\n", "1:1: the file is empty: write version: 1 and what follows it"},
		{"- a\n", "1:1: the document is a list: write a map, {count: …}"},
		{"count: 1\nnmae: x\n", `2:1: unknown key "nmae": write name`},
		{"count: 1\nbogus_key: x\n",
			`2:1: unknown key "bogus_key": write one of count, name, color, every, wait, zone, items, costs`},
		{"count: 1\n1: x\n", `2:1: unknown key "1": write one of count, name, color, every, wait, zone, items, costs`},
		{"name: x\n", `1:1: missing key "count": write count: 1`},
		{"count: 1\nname: x\ncount: 2\n", `3:1: repeated key "count": remove one`},
		{"count: 1\ncosts: {a: 1, 'a': 2}\n", `2:15: repeated key "a": remove one`},
		{"count: 1\n---\n---\ncount: 2\n", "2:1: an empty document: remove this ---"},
		{"count: 1\n---\n", "2:1: an empty document: remove this ---"},
		{"count: &a 1\ncosts: {a: *a, <<: *a}\n", "1:8: an anchor (&): write the value out where it is used\n" +
			"2:12: an alias (*): write the value out; a text that begins with * goes in quotes\n" +
			"2:16: a merge key (<<): write the keys out\n" +
			"2:20: an alias (*): write the value out; a text that begins with * goes in quotes"},
		{"count: !!int 1\n", "1:8: a tag (!): remove it; a text that begins with ! goes in quotes"},
		{"? count\n: 1\n", "1:1: a complex key (?): write key: value"},
		{"count: 1\nname: |\n  x\n", "2:7: a block of text (| or >): write it on one line"},
		{"count: 1\ncosts:\n\ta: 1\n\t\tb: 1\n", "3:1: a tab before the text: indent all lines with spaces"},
		{"name: @x\n",
			"1:7: '@' is a reserved character: correct the line; text with special characters goes in quotes"},
		{"count: [1\n", "1:8: sequence end token ']' not found" + syntax},
		{"{{{", "1:2: could not find flow map content" + syntax},
		{"count: 1\ncosts: {a: 1\nname: x\n", "3:1: ',' or '}' must be specified" + syntax},
		{"count: 1\nitems: [x, {y}\n", "2:8: sequence end token ']' not found" + syntax},
		{"{items: [x}", "1:11: ',' or ']' must be specified" + syntax},
		{"items: [x]]", "1:11: value is not allowed in this context" + syntax},
		{"count: 1\nname: a\x07\n", "2:8: a control character (U+0007): remove it"},
		{"count: 1\nname: \xff\n", "2:7: byte 0xff is not UTF-8: save the file as UTF-8"},
		{"count: 1\nname: [x]\n", "2:7: name is a list: write a text"},
		{"count: 1\nname:\n", "2:7: name is empty: write a text"},
		{"count: 1\nname: 12\n", "2:7: name is 12: write it in quotes if a text is meant"},
		{"count: 1\nname: true\n", "2:7: name is true: write it in quotes if a text is meant"},
		{"count: 1\nname: \" x\"\n", `2:7: name is " x": write it without the spaces around it`},
		{"count: 1\nname: a\u200b\n", `2:7: name is "a\u200b": write it without control characters`},
		{"count: 1\nname: \"a\\u202eb\"\n", `2:7: name is "a\u202eb": write it without control characters`},
		{"count: 1\nname: abcdefghijk\n", "2:7: name has 11 bytes: write at most 10"},
		{"count: 1\ncolor: Gren\n", `2:8: unknown color "Gren": write green`},
		{"count: 1\ncolor: 7\n", `2:8: unknown color "7": write one of red, green`},
		{"count: 1\ncolor: " + key + "\n", `2:8: unknown color "AIza…": write one of red, green`},
		{"count: 1\nevery: 7d\n", `2:8: every is "7d": write a duration from 1s to 48h, such as 24h, 10m or 30s`},
		{"count: 1\nevery: '0.5'\n", `2:8: every is "0.5", without a unit: write 0.5h, 0.5m or 0.5s`},
		{"count: 1\nevery: 30\n", `2:8: every is 30, without a unit: write 30h, 30m or 30s`},
		{"count: 1\nzone: Mars/Base\n",
			`2:7: zone is "Mars/Base": write the IANA name of a zone, such as America/Los_Angeles or UTC`},
		{"count: 1\nzone: Local\n",
			`2:7: zone is "Local": write the IANA name of a zone, such as America/Los_Angeles or UTC`},
		{"count: 1\nitems: x\n", `2:8: items is "x": write a list, [first, second]`},
		{"count: 1\nitems: [x, 5]\n", "2:12: an item of items is 5: write it in quotes if a text is meant"},
		{"count: 1\ncosts: {a: 10}\n", "2:12: a is 10: write an integer from 1 to 9"},
		{"count: 0\nname: ''\ncosts: []\nx: 1\n",
			"1:8: count is 0: write an integer from 1 to 100\n2:7: name is empty: write a text, or remove it\n" +
				"3:8: costs is a list: write a map, key: value\n4:1: unknown key \"x\": write one of count, name, " +
				"color, every, wait, zone, items, costs"},
	} {
		_, err := read(c.text)
		want := "f.yaml:" + strings.ReplaceAll(c.want, "\n", "\nf.yaml:")
		if err == nil || err.Error() != want {
			t.Errorf("%q:\ngot  %v\nwant %s", c.text, err, want)
		}
	}
}

func TestDurationsOfOneDayAndOfPlainSecondsAreRead(t *testing.T) {
	for text, want := range map[string]sample{
		"every: 1d12h":  {Every: 36 * time.Hour},
		"wait: 5":       {Wait: 5 * time.Second},
		"wait: \"5\"":   {Wait: 5 * time.Second},
		"wait: '0.25d'": {Wait: 6 * time.Hour},
	} {
		want.Count = 1
		got, err := read("count: 1\n" + text + "\n")
		if diff := cmp.Diff([]sample{want}, got); err != nil || diff != "" {
			t.Errorf("%s: %v, %s", text, err, diff)
		}
	}
	for _, text := range []string{"every: 0", "wait: -5", "wait: 1.5", "wait: 86401", "wait: 2d", "wait: 0x10",
		"wait: 1e3", "wait: 5 s", "wait:", "wait: [5]", "wait: true"} {
		if got, err := read("count: 1\n" + text + "\n"); err == nil ||
			!strings.Contains(err.Error(), "write a duration from") {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
}

func TestOnlyPlainIntegersAreIntegers(t *testing.T) {
	for _, text := range []string{"0100", "1_0", "0x10", "0b1", "0o7", "1e1", "1.0", "+5", "-0", "-5", ".inf", ".nan",
		"NaN", "'5'", `"5"`, "~", "", "true", "99999999999999999999", "5 6", "[5]", "{a: 5}", "101", "0"} {
		if got, err := read("count: " + text + "\n"); err == nil {
			t.Errorf("count: %s is read as %v", text, got)
		} else if !strings.Contains(err.Error(), "write an integer from 1 to 100") {
			t.Errorf("count: %s: %v", text, err)
		}
	}
}

func TestHostileFilesAreRejectedQuickly(t *testing.T) {
	var keys strings.Builder
	for i := range 60_000 {
		fmt.Fprintf(&keys, "key%d: v\n", i)
	}
	for name, text := range map[string]string{
		"lists":    strings.Repeat("[", 1<<17),
		"maps":     strings.Repeat("{a: ", 1<<15),
		"nested":   strings.Repeat("[", 19_000),
		"in line":  strings.Repeat("- ", 19_000),
		"entries":  strings.Repeat("- ", 1<<16),
		"keys":     keys.String(),
		"aliases":  "a: &a [x]\n" + strings.Repeat("b: [*a, *a, *a]\n", 1<<11),
		"too long": strings.Repeat("#", strictyaml.MaxSize+1),
	} {
		begin := time.Now()
		if _, err := read(text); err == nil {
			t.Errorf("%s: no mistake found", name)
		} else if lines := strings.Count(err.Error(), "\n"); lines > 100 {
			t.Errorf("%s: %d lines of message", name, lines)
		}
		if _, err := read(text); name == "too long" &&
			!strings.Contains(err.Error(), "the file has more than 1048576 bytes: shorten it") {
			t.Errorf("%s: %v", name, err)
		}
		if spent := time.Since(begin); spent > 10*time.Second {
			t.Errorf("%s: took %s", name, spent)
		}
	}
}

func TestFilesThatOthersMayWriteAreRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f.yaml")
	for mode, refused := range map[os.FileMode]bool{0o600: false, 0o644: false, 0o646: true, 0o666: true} {
		if err := os.WriteFile(path, []byte("count: 1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := strictyaml.ReadFile(path)
		if got := errors.Is(err, files.ErrUnsafe); got != (refused && runtime.GOOS != "windows") {
			t.Errorf("mode %v: %v", mode, err)
		}
	}
	if _, err := strictyaml.ReadFile(t.TempDir()); err == nil {
		t.Error("a folder is read as a file")
	}
	if _, err := strictyaml.ReadFile(path + ".none"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
}

func TestTheNearestWordIsFound(t *testing.T) {
	words := []string{"search.list", "videos.list", "methods", "api"}
	for s, want := range map[string]string{"serach.list": "search.list", "Search.List": "search.list",
		"video.list": "videos.list", "method": "methods", "ap": "api", "zzz": "", "": "",
		strings.Repeat("x", 1000): ""} {
		if got := strictyaml.Nearest(s, words); got != want {
			t.Errorf("Nearest(%q) = %q, want %q", s, got, want)
		}
	}
}

// Reading does not panic for any bytes, and every mistake names a place and
// what to do.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{"count: 7\nitems: [x]\n", "a: 1\n---\n---\nb: 2\n", "- - -", "? a\n: b",
		"a: [1, {b: c", "\"", "a: |\n x", "%YAML 1.2\n---\na: b\n...\n", "a:\n- b\n -c", "{}: {}\n[]: x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		_, err := read(text)
		mistakes, ok := errors.AsType[*strictyaml.Error](err)
		if err != nil && !ok {
			t.Fatalf("%T", err)
		}
		if !ok {
			return
		}
		for _, m := range mistakes.Mistakes {
			if m.Line < 1 || m.Column < 1 || m.File != "f.yaml" || !strings.Contains(m.Message, ": ") {
				t.Errorf("%+v", m)
			}
		}
	})
}

// TestAdviceNamesAWordOnce: budgets of two accounts may have one name.
func TestAdviceNamesAWordOnce(t *testing.T) {
	for want, known := range map[string][]string{"there are none": nil, "write hour": {"hour", "hour"},
		"write one of hour, day": {"hour", "day", "hour"}} {
		if got := strictyaml.Advice("acme/x", known); got != want {
			t.Errorf("%v: %s; want %s", known, got, want)
		}
	}
}

func TestANodeHasItsKeysAndPlace(t *testing.T) {
	for _, node := range strictyaml.Parse("f.yaml", []byte("a: 1\nb: {c: 2}\n")).Documents() {
		if !node.Has("a") || !node.Has("b") || node.Has("c") {
			t.Error("it has other keys than a and b")
		}
		node.Entries(func(key, value strictyaml.Node) {
			if key.Text(9) != "b" {
				return
			}
			if file, line, column := value.Place(); file != "f.yaml" || line != 2 || column != 4 || !value.Has("c") {
				t.Errorf("b is at %s:%d:%d", file, line, column)
			}
		})
	}
	if file, line, column := (strictyaml.Node{}).Place(); file != "" || line != 0 || column != 0 ||
		(strictyaml.Node{}).Has("a") {
		t.Error("the zero Node is somewhere")
	}
}

func TestVerbatimReadsAnyText(t *testing.T) {
	for value, want := range map[string]string{
		`" a\n\t "`: " a\n\t ", `""`: "", `plain`: "plain",
		"5": "f:1:4: v is 5: write it in quotes if a text is meant", "{a}": "f:1:4: v is a map: write a text in quotes",
		`"\0"`:         "f:1:4: v is \"\\x00\": write it without the character NUL",
		"12345678901x": "f:1:4: v has 12 bytes: write at most 10",
	} {
		file := strictyaml.Parse("f", []byte("v: "+value+"\n"))
		var got string
		for _, document := range file.Documents() {
			document.Fields(strictyaml.Field{Key: "v", Read: func(n strictyaml.Node) { got, _ = n.Verbatim(10) }})
		}
		if err := file.Err(); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("%s: got %q; want %q", value, got, want)
		}
	}
}

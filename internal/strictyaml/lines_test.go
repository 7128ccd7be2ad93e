package strictyaml_test

import (
	"fmt"
	"testing"
)

// TestASyntaxMistakeIsReportedInItsLine: a mistake that YAML would read as
// another text is reported once, in the line that has it or the one below.
func TestASyntaxMistakeIsReportedInItsLine(t *testing.T) {
	const (
		context = "value is not allowed in this context" + syntax
		alias   = "an alias (*): write the value out; a text that begins with * goes in quotes"
		above   = " continues the text of the line above: correct its indentation, or that line"
		tab     = `a tab in a text: write a space, or \t in double quotes`
		dash    = "a dash without a space behind it: write a space, or the key in quotes"
		keys    = ": write one of count, name, color, every, wait, zone, items, costs"
	)
	for text, want := range map[string]string{
		"{count: 9,500}":                    `1:11: unknown key "500"` + keys,
		"count: 9,500\n":                    `1:8: count is "9,500": write an integer from 1 to 100`,
		"count: 1\nname: */6 * * * *\n":     "2:7: " + alias,
		"items:\n  - */6 * * * *\n  - *a\n": "2:5: " + alias + "\nf.yaml:3:5: " + alias,
		"name: \"x\ncolor: \"red\"\n":       "2:9: " + context,
		"costs:\n\"a: 1\n\"b\": 2\n":        "3:2: " + context,
		"name: \"x\n  y\" \"z\"\n":          "2:6: " + context,
		"name: \"x\n  y\"\n  z\n":           "3:3: " + context,
		"name: \"x\" y # a\n":               "1:11: " + context,
		"count: 1\nname:x\ncolor: red\n":    "2:1: non-map value is specified" + syntax,
		"costs:\n  a:1\n  b: 2\n":           "3:3: b" + above,
		"name\ncount: 1\n":                  "2:1: count" + above,
		"name: x\n  count: 1\n":             "2:3: count" + above,
		"count: 1\nitems:\n  - a\n  -b\n":   "4:3: " + context,
		"count: 1\ncosts:\n  -a: 1\n":       "3:3: " + dash,
		"count: 1\nname: a: b\n":            "2:7: mapping value is not allowed in this context" + syntax,
		"  count: 1\nname: x\n":             "2:1: " + context,
		"name: 0\t5 * * *\ncount: 1\n":      "1:7: " + tab,
		"name: \"0\t5\"\ncolor: red\n":      "1:7: " + tab,
		"{name all, color: red}":            `1:2: unknown key "name all"` + keys,
	} {
		if _, err := read(text); err == nil || err.Error() != "f.yaml:"+want {
			t.Errorf("%q:\ngot  %v\nwant f.yaml:%s", text, err, want)
		}
	}
	for _, text := range []string{"{count: 1,name: x}", "{count: 1,\n name: x}", "{count: 1, items: [1a,2b]}",
		"{count: 1, costs: {a: 1,b: 2,}}", "{count: 1, name: \"9,500\"}", "count: 1\nname:\n  a:b\n",
		"count: 1\nitems:\n  - a:b\n  - c:[d\n", "{count:1,\n name:x}", "count: 1\t# why\nname: \"a\"\t# why\n",
		"count:\t1\nitems: [a,\t b\t]\n"} {
		if _, err := read(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestATextThatGoesOnBelowIsAMistake: YAML joins a plain text with the next
// line if that is indented further. Lanes [cron, backfill] were the lane "cron
// - backfill", so that their budget covered no call, and a comment behind the
// second line was a part of the text.
func TestATextThatGoesOnBelowIsAMistake(t *testing.T) {
	const advice = " continues the text of the line above: correct its indentation, or that line"
	for text, want := range map[string]string{
		"count: 1\nitems:\n  - cron\n    - backfill\n":        "4:5: - backfill" + advice,
		"count: 1\nitems:\n  - cron\n\n    - b  # c\n  - d\n": "5:5: - b  # c" + advice,
		"name: my\r\n  project # the one\r\ncount: 1\r\n":     "2:3: project" + advice,
		"count: 1\nname: a\n   b\n  c\n":                      "3:4: b" + advice,
		"count: 1\nitems: [a\n  b, c]\n":                      "3:3: b" + advice,
		"count: 1\nname:\n  # c\n  a\n  b\n":                  "5:3: b" + advice,
		"count: 1\nname:\n\n  a\n\n  b\n":                     "6:3: b" + advice,
	} {
		if _, err := read(text); err == nil || err.Error() != "f.yaml:"+want {
			t.Errorf("%q:\ngot  %v\nwant f.yaml:%s", text, err, want)
		}
	}
	for _, text := range []string{"name:\n\n  # a\n  x  # b\n\ncount: 1\n", "count: 1\nname: \"a\n  b\"\n",
		"items: [a,\n  b\n  , c]\n\ncount: 1"} {
		if _, err := read(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestASpaceThatOnlyLooksPlainIsAMistake: a name with a no-break space was
// another name than the one with a space, which looks the same.
func TestASpaceThatOnlyLooksPlainIsAMistake(t *testing.T) {
	for _, space := range []string{"\u00a0", "\u2007", "\u202f"} {
		_, err := read("count: 1\nname: a" + space + "b\n")
		if want := fmt.Sprintf("f.yaml:2:7: name is %q: write it with plain spaces", "a"+space+"b"); err == nil ||
			err.Error() != want {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if _, err := read("count: 1\nname: a b\u3000c\n"); err != nil { // of another width
		t.Error(err)
	}
}

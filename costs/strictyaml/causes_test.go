package strictyaml_test

import (
	"fmt"
	"testing"
)

// Each of these used to be several lines, of which the first was not the cause.
func TestOneCauseIsReportedOnce(t *testing.T) {
	for text, want := range map[string]string{
		"{count: 9,500}":                         "1:9: 9,500 has a comma, which ends the number between braces: write 9500",
		"{count: 1,009,500, name: x}":            "1:9: 1,009,500 has a comma, which ends the number between braces: write 1009500",
		"{name: x, count: 9,500}":                "1:18: 9,500 has a comma, which ends the number between braces: write 9500",
		"{count: 9,5OO}":                         `1:9: 9,5OO has a comma, which ends the value between braces: write "9,5OO"`,
		"count: 1\ncosts: {a: 1,000}\n":          "2:12: 1,000 has a comma, which ends the number between braces: write 1000",
		"items: [{a: 1,0}]\ncount: 1\n":          "1:13: 1,0 has a comma, which ends the number between braces: write 10",
		"{count: 1, name: 0,30 * * * *}":         `1:18: 0,30 * * * * has a comma, which ends the value between braces: write "0,30 * * * *"`,
		"count: 9,500\n":                         `1:8: count is "9,500": write an integer from 1 to 100`,
		"count: 1\nname: */6 * * * *\n":          `2:7: a text that begins with * goes in quotes: write "*/6 * * * *"`,
		"count: 1\nname: * * * * * # all\n":      `2:7: a text that begins with * goes in quotes: write "* * * * *"`,
		"{count: 1, name: */6 * * * *}":          `1:18: a text that begins with * goes in quotes: write "*/6 * * * *"`,
		"count: 1\nitems: [*, */2]\n":            "2:9: a text that begins with * goes in quotes: write \"*\"\nf.yaml:2:12: a text that begins with * goes in quotes: write \"*/2\"",
		"items:\n  - */6 * * * *\n  - *a\n":      "2:5: a text that begins with * goes in quotes: write \"*/6 * * * *\"\nf.yaml:3:5: an alias (*): write the value out; a text that begins with * goes in quotes",
		"name: \"x\ncolor: \"red\"\n":            "1:7: a quote that is not closed in its line: add its \"",
		"name: 'x\nitems: ['a']\n":               "1:7: a quote that is not closed in its line: add its '",
		"name: \"x\ncosts: {\"a\": 1}\n":         "1:7: a quote that is not closed in its line: add its \"",
		"costs:\n\"a: 1\n\"b\": 2\n":             "2:1: a quote that is not closed in its line: add its \"",
		"count: 1\nname: \"x\n  y\" z\n":         "3:6: z after the quote that closes the text of line 2: remove it, or close the text in line 2",
		"name: 'x\n  y'z # a\ncount: 1\n":        "2:5: z after the quote that closes the text of line 1: remove it, or close the text in line 1",
		"name: \"x\n  y\" \"z\"\n":               "2:6: z after the quote that closes the text of line 1: remove it, or close the text in line 1",
		"name: \"x\n  y\"\n  z\n":                "3:3: value is not allowed in this context: correct the line or its indentation",
		"{name: \"x\n  y\" z, count: 1}\n":       "2:6: ',' or '}' must be specified: correct the line or its indentation",
		"name: \"x\" y\n":                        "1:11: y after the closing quote: remove it, or move it into the quotes",
		"name: \"x\" y # a\n":                    "1:11: y after the closing quote: remove it, or move it into the quotes",
		"name: \"x\" y: z\n":                     "1:11: a second colon with a space behind it: write one key a line; text that has one goes in quotes",
		"count: 1\nname:x\ncolor: red\n":         "2:1: a colon without a space behind it: write name: x",
		"costs:\n  a:1\n  b: 2\ncount: 1\n":      "2:3: a colon without a space behind it: write a: 1",
		"costs:{a: 1, b: 2}\ncount: 1\n":         "1:1: a colon without a space behind it: write costs: {",
		"count: 1\nitems:[a]\n":                  "2:1: a colon without a space behind it: write items: [",
		"count: 1\nname:\"x\" # a\n":             "2:1: a colon without a space behind it: write name: \"",
		"count: 1\nname x\n":                     "2:1: name x has no colon: write a key, a colon and a space before a value",
		"name\ncount: 1\n":                       "1:1: name has no colon: write a key, a colon and a space before a value",
		"count: 1\nitems:\n  - a\n  -b\n":        "4:3: a dash without a space behind it: write - b",
		"items:\n  -name: day\n   count: 1\n":    "2:3: a dash without a space behind it: write - name",
		"count: 1\nname: a: b\n":                 "2:7: a second colon with a space behind it: write one key a line; text that has one goes in quotes",
		"name: x\n  count: 1\n":                  "2:3: count continues the value of the line above: correct its indentation, or that value",
		"  count: 1\nname: x\n":                  "2:1: value is not allowed in this context: correct the line or its indentation",
		"name: \"x\"\n  y\n":                     "2:3: value is not allowed in this context: correct the line or its indentation",
		"name: 0\t5 * * *\ncount: 1\n":           `1:7: a tab in a text: write a space, or \t in double quotes`,
		"name: \"0\t5\"\ncolor: red\ncount: 1\n": `1:7: a tab in a text: write a space, or \t in double quotes`,
		"items: [news\ttoday, x]\ncount: 1\n":    `1:9: a tab in a text: write a space, or \t in double quotes`,
		"cuont: 1\n":                             `1:1: unknown key "cuont": write count`,
		"{name all, color: red}":                 `1:2: unknown key "name all": write one of count, name, color, every, wait, zone, items, costs`,
		"count: 1\ncosts: {a: 1, b: 2,c: 10}\n":  "2:23: c is 10: write an integer from 1 to 9",
	} {
		if _, err := read(text); err == nil || err.Error() != "f.yaml:"+want {
			t.Errorf("%q:\ngot  %v\nwant f.yaml:%s", text, err, want)
		}
	}
	for _, text := range []string{"{count: 1,name: x}", "{count: 1,\n name: x}", "{count: 1, items: [1a,2b]}", "{count: 1, costs: {a: 1,b: 2,}}", "{count: 1, name: \"9,500\"}", "count: 1\nname:\n  a:b\n", "count: 1\nitems:\n  - a:b\n  - c:[d\n", "{count:1,\n name:x}", "count: 1\t# why\nname: \"a\"\t# why\n", "count:\t1\nitems: [a,\t b\t]\n"} {
		if _, err := read(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestEntryBecomesPartOfTheOneAbove: YAML joins a plain text with the next line
// if that is indented further. Lanes [cron, backfill] were the lane "cron -
// backfill", so that their budget covered no call, and a comment behind the
// second line was a part of the text.
func TestEntryBecomesPartOfTheOneAbove(t *testing.T) {
	const advice = " continues the value of the line above: correct its indentation, or write that value in one line"
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
	for _, text := range []string{"name:\n\n  # a\n  x  # b\n\ncount: 1\n", "count: 1\nname: \"a\n  b\"\n", "items: [a,\n  b\n  , c]\n\ncount: 1"} {
		if _, err := read(text); err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestSpaceLooksLikeAnother: a name with a no-break space was another name than
// the one with a space, which looks the same.
func TestSpaceLooksLikeAnother(t *testing.T) {
	for _, space := range []string{"\u00a0", "\u2007", "\u202f"} {
		_, err := read("count: 1\nname: a" + space + "b\n")
		if want := fmt.Sprintf("f.yaml:2:7: name is %q: write it with plain spaces", "a"+space+"b"); err == nil || err.Error() != want {
			t.Errorf("%v; want %s", err, want)
		}
	}
	if _, err := read("count: 1\nname: a b\u3000c\n"); err != nil { // of another width
		t.Error(err)
	}
}

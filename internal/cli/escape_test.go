package cli

import (
	"bytes"
	"encoding/json"
	"testing"
	"unicode/utf8"
)

// TestNoTerminalEscapeFromOutsidePasses: no byte that a terminal obeys gets
// through, however it is split over writes; what people write does.
func TestNoTerminalEscapeFromOutsidePasses(t *testing.T) {
	for text, want := range map[string]string{
		"plain\ttext\n": "plain\ttext\n",
		"Ünïcode 日本語 🎉 👍🏽 ❤️":                   "Ünïcode 日本語 🎉 👍🏽 ❤️",
		"\x1b]0;title\x07\x1b[2J":               `\u001b]0;title\u0007\u001b[2J`,
		"a\rb\bc\x00d\x7f":                      `a\u000db\u0008c\u0000d\u007f`,
		"\u009b2J\u0085\u0080":                  `\u009b2J\u0085\u0080`,
		"\x9b2J\x80\xff":                        `\x9b2J\x80\xff`,
		"\u202etxt\u2066\u2069\u200f\u061c":     `\u202etxt\u2066\u2069\u200f\u061c`,
		"a\u200bb\ufeffc\u2028d\u2029e\u00ad":   `a\u200bb\ufeffc\u2028d\u2029e\u00ad`,
		"tags \U000e0041 fillers \u3164\u115f":  `tags \udb40\udc41 fillers \u3164\u115f`,
		"cut \xe2\x80":                          `cut \xe2\x80`,
		"\xc2\x1b[31m":                          `\xc2\u001b[31m`,
		"surrogate \xed\xa0\x80, long \xc0\x9b": `surrogate \xed\xa0\x80, long \xc0\x9b`,
	} {
		if got := Escape(text); got != want {
			t.Errorf("Escape(%q) = %q; want %q", text, got, want)
		}
		for cut := range len(text) + 1 {
			var out bytes.Buffer
			w := NewWriter(&out)
			for _, part := range []string{text[:cut], "", text[cut:]} {
				if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
					t.Fatal(n, err)
				}
			}
			w.Flush()
			if got := out.String(); got != want {
				t.Errorf("%q, cut at %d: %q; want %q", text, cut, got, want)
			}
		}
	}
}

// A program that reads JSON finds the text as it was.
func TestEscapedJSONMeansTheSame(t *testing.T) {
	want := "\x1b[2J\u009b\x7f\u202e\u200d\U000e0041\u2028 日本"
	text, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := json.Unmarshal([]byte(Escape(string(text))), &got); err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
}

func FuzzEscape(f *testing.F) {
	f.Add("\x1b[2J", "\u202e\x9b")
	f.Fuzz(func(t *testing.T, one, two string) {
		var out bytes.Buffer
		w := NewWriter(&out)
		w.Write([]byte(one))
		w.Write([]byte(two))
		w.Flush()
		if out.String() != Escape(one+two) || !utf8.ValidString(out.String()) || Escape(out.String()) != out.String() {
			t.Errorf("%q and %q: %q", one, two, out.String())
		}
	})
}

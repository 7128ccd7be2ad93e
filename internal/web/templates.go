package web

import (
	"fmt"
	"hash/fnv"
	"html/template"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// functions returns the functions of the templates.
func functions() template.FuncMap {
	return template.FuncMap{
		"number": number,
		"amount": amount,
		"when":   when,
		"text":   unbroken,
		"in":     relative,
		"ago":    relative,
		"ranked": rankedText,
		"search": searchWord,
		"count":  func(n int, thing string) string { return human.Count(n, thing) },
	}
}

// number writes a number with its thousands apart, and as it is for programs.
func number(n any) template.HTML {
	value, _ := strconv.ParseInt(fmt.Sprint(n), 10, 64)
	return template.HTML(fmt.Sprintf(`<data value="%d">%s</data>`, value, human.Grouped(value)))
}

// amount writes an amount of a measure as number does; dollars with their sign.
func amount(n quota.Units, measure string) template.HTML {
	if m := quota.Measure(measure); m == quota.USD {
		return template.HTML(fmt.Sprintf(`<data value="%s">%s</data>`, m.Number(n), m.Text(n)))
	}
	return number(int64(n))
}

// when writes a time in UTC as the commands do: the second in which it falls,
// with the year unless it is this one. The page's script shows it in the zone
// of its reader.
func when(t time.Time) template.HTML {
	t = human.JSONTime(t)
	shown := human.Dated(t, time.Now(), human.TableTime)
	return template.HTML(fmt.Sprintf(`<time datetime="%s">%s</time>`, t.Format(time.RFC3339Nano), shown))
}

// textTime is a time in a sentence, as human.Time and human.Dated write it.
var textTime = regexp.MustCompile(`(\d{4}-)?\d\d-\d\d[ T]\d\d:\d\d:\d\dZ`)

// unbroken writes a sentence, with no line break within its times.
func unbroken(text string) template.HTML {
	return template.HTML(textTime.ReplaceAllString(template.HTMLEscapeString(text), `<span class="at">$0</span>`))
}

// relative writes how far a time is away. What is in such a span does not make
// a part of the page a new one; the page's script keeps it current.
func relative(t, now time.Time) template.HTML {
	text := "in " + human.Duration(t.Sub(now))
	if t.Before(now) {
		text = human.Duration(now.Sub(t)) + " ago"
	}
	return template.HTML(fmt.Sprintf(`<span class="rel" data-at="%s">%s</span>`,
		human.JSONTime(t).Format(time.RFC3339Nano), text))
}

// assets returns a name for the embedded files as they are.
var assets = sync.OnceValue(func() string {
	hash := fnv.New64a()
	for _, name := range []string{"page.css", "page.js", "icon.svg"} {
		text, _ := files.ReadFile("page/" + name)
		hash.Write(text)
	}
	return strconv.FormatUint(hash.Sum64(), 36)
})

// visible returns HTML with the characters that change the direction of text,
// with which a name could disguise what stands beside it, as \u202e.
func visible(html string) string {
	isControl := func(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }
	if !strings.ContainsFunc(html, isControl) {
		return html
	}
	var b strings.Builder
	for _, r := range html {
		if isControl(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

package feedback

import (
	"bytes"
	"encoding/json"
	"html"
	"io"
	"strings"
	"unicode"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
)

// Bounds of what is read of a body.
const (
	maxBody  = 64 << 10
	maxTexts = 32  // texts of a document
	maxText  = 400 // bytes of a text
	maxDepth = 8
	maxItems = 16 // of a JSON list or object, under *
)

// parseJSON returns a decoded JSON document with its numbers as json.Number, or
// nil if body is malformed.
func parseJSON(body []byte) any {
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.UseNumber()
	var v any
	if decoder.Decode(&v) != nil {
		return nil
	}
	if _, err := decoder.Token(); err != io.EOF {
		return nil
	}
	return v
}

// lookup returns the values at a dotted path; * stands for every item of a
// list or object.
func lookup(v any, path string) []any {
	switch {
	case v == nil:
		return nil
	case path == "":
		return []any{v}
	}
	name, rest, _ := strings.Cut(path, ".")
	switch v := v.(type) {
	case map[string]any:
		if name != "*" {
			return lookup(v[name], rest)
		}
		var all []any
		for _, key := range firstItems(sortedKeys(v)) {
			all = append(all, lookup(v[key], rest)...)
		}
		return all
	case []any:
		var all []any
		if name != "*" {
			return nil
		}
		for _, item := range firstItems(v) {
			all = append(all, lookup(item, rest)...)
		}
		return all
	}
	return nil
}

func firstItems[T any](list []T) []T { return list[:min(len(list), maxItems)] }

// scalar returns the text of a JSON string, number or boolean.
func scalar(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, v != ""
	case json.Number:
		return v.String(), true
	case bool:
		return map[bool]string{true: "true", false: "false"}[v], true
	}
	return "", false
}

// collectTexts appends the strings in a document, cut to maxText, to all.
// Addresses are not words.
func collectTexts(v any, all []string, depth int) []string {
	if depth > maxDepth || len(all) >= maxTexts {
		return all
	}
	switch v := v.(type) {
	case string:
		if v != "" && !strings.HasPrefix(v, "http") {
			all = append(all, plainText(v))
		}
	case []any:
		for _, item := range firstItems(v) {
			all = collectTexts(item, all, depth+1)
		}
	case map[string]any:
		for _, key := range sortedKeys(v) {
			all = collectTexts(v[key], all, depth+1)
		}
	}
	return all
}

// plainText returns a text without markup, cut to maxText.
func plainText(text string) string {
	text = text[:min(len(text), maxText)]
	if strings.ContainsAny(text, "<&") {
		text = tags.ReplaceAllString(html.UnescapeString(text), "")
	}
	return text
}

// messageOf returns the message of an error document: the first text under one
// of the usual names.
func messageOf(v any) string {
	for _, path := range common.MessagePaths {
		for _, found := range lookup(v, path) {
			if text, ok := found.(string); ok && text != "" {
				return text
			}
		}
	}
	return ""
}

var (
	tags      = pattern("tags")
	keys      = pattern("keys")
	inline    = pattern("inline_tags")
	htmlBegin = pattern("html")
)

// clean returns the first line of a text without markup, control characters and
// keys, cut to quota.MaxReason bytes.
func clean(text string) string {
	text = tags.ReplaceAllString(html.UnescapeString(text[:min(len(text), 20*quota.MaxReason)]), "")
	text = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case !unicode.IsPrint(r), r == unicode.ReplacementChar:
			return -1
		}
		return r
	}, text)
	text = keys.ReplaceAllString(strings.Join(strings.Fields(text), " "), "${1}REDACTED")
	return human.Cut(text, quota.MaxReason)
}

// bucketName returns the upstream's name for a limit in lower case, with
// underscores for anything but letters, digits, dots and hyphens.
func bucketName(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case 'a' <= r && r <= 'z', '0' <= r && r <= '9', r == '.', r == '-', r == '_':
			return r
		case 'A' <= r && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '_'
	}, name[:min(len(name), 100)])
}

// readTexts returns what follows the value's words in the texts.
func (v *RuleValue) readTexts(a *answer) (found []string) {
	for _, words := range v.Text {
		words = strings.ToLower(words)
		for i, text := range a.said() {
			at := strings.Index(a.lowered()[i], words)
			if at < 0 || at+len(words) > len(text) {
				continue
			}
			rest := text[at+len(words):]
			if quoted, _, ok := strings.Cut(rest, "'"); ok && strings.HasSuffix(words, "'") {
				found = append(found, quoted)
				continue
			}
			if wait := timeIn.FindString(rest); wait != "" {
				found = append(found, wait)
			}
		}
	}
	return found
}

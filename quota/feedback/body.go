package feedback

import (
	"bytes"
	"encoding/json"
	"html"
	"io"
	"math"
	"mime"
	"net/http"
	"regexp"
	"strings"
	"unicode"

	"github.com/ration-dev/ration/internal/textfmt"
	"github.com/ration-dev/ration/quota"
)

// The longest bodies that are read. Google's errors have about two kilobytes;
// in a successful response the cost may come last.
const (
	maxErrorBody = 64 << 10
	maxBody      = 1 << 20
)

// readsBody reports whether the dialect reads the body of a successful
// response: JSON of at most maxBody bytes, from one of the dialect's paths.
func (d *dialect) readsBody(resp *http.Response) bool {
	if d.body == "" || resp.ContentLength > maxBody {
		return false
	}
	if req := resp.Request; req != nil && req.URL != nil && !strings.Contains(req.URL.Path+"/", d.body) {
		return false
	}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return false
	}
	subtype, ok := strings.CutPrefix(kind, "application/")
	return ok && (subtype == "json" || strings.HasSuffix(subtype, "+json"))
}

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

// maxItems is how many items of a JSON list are read.
const maxItems = 16

// lookup returns the values at a dotted path; * stands for every item of a
// list.
func lookup(v any, path string) []any {
	switch {
	case v == nil:
		return nil
	case path == "":
		return []any{v}
	}
	name, rest, _ := strings.Cut(path, ".")
	if name != "*" {
		object, _ := v.(map[string]any)
		return lookup(object[name], rest)
	}
	list, _ := v.([]any)
	var all []any
	for _, item := range list[:min(len(list), maxItems)] {
		all = append(all, lookup(item, rest)...)
	}
	return all
}

// texts returns the strings at the paths that are not empty.
func texts(v any, paths ...string) []string {
	var all []string
	for _, path := range paths {
		for _, value := range lookup(v, path) {
			if text, ok := value.(string); ok && text != "" {
				all = append(all, text)
			}
		}
	}
	return all
}

// field returns a field of v, if v is a JSON object and the field a T.
func field[T any](v any, name string) (T, bool) {
	object, _ := v.(map[string]any)
	value, ok := object[name].(T)
	return value, ok
}

func number(v any) (float64, bool) {
	n, _ := v.(json.Number)
	f, err := n.Float64()
	return f, err == nil
}

// scalar returns the text of a JSON string or number, and "" for other values.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// roundUp returns n in units, rounded up, at most quota.MaxLimit.
func roundUp(n float64) quota.Units { return quota.Units(math.Ceil(min(n, float64(quota.MaxLimit)))) }

// quantity returns a field of v in units, rounded down, or -1 if it has none.
func quantity(v any, name string) quota.Units {
	value, _ := field[json.Number](v, name)
	n, ok := number(value)
	if !ok || n < 0 || n > float64(quota.MaxLimit) {
		return -1
	}
	return quota.Units(n)
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

// maxText is how many bytes of a text are read.
const maxText = 20 * quota.MaxReason

var (
	tags = regexp.MustCompile(`<[^>]*>`)
	keys = regexp.MustCompile(`AIza[\w-]+|\bsk-[\w-]{8,}|((?:key|token|upload_id)=)[^\s&"'<>]+`)
)

// clean returns text without markup, control characters and keys, cut to
// quota.MaxReason bytes.
func clean(text string) string {
	text = tags.ReplaceAllString(html.UnescapeString(text[:min(len(text), maxText)]), "")
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
	return textfmt.Cut(text, quota.MaxReason)
}

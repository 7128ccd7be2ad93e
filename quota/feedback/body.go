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
	"strconv"
	"strings"
	"unicode"

	"github.com/ration-dev/ration/quota"
)

// How much of a body is looked at: of an error (Google's have some two
// kilobytes), and of an answer that is fine, where what it cost may stand last.
const (
	maxBody = 64 << 10
	maxFine = 1 << 20
)

// looksInto reports whether the body of an answer that is fine is worth a
// look: JSON that is not too long, of a request that this upstream comments on.
func (d *dialect) looksInto(resp *http.Response) bool {
	if d.body == "" || resp.ContentLength > maxFine || resp.Request != nil && resp.Request.URL != nil && !strings.Contains(resp.Request.URL.Path+"/", d.body) {
		return false
	}
	kind, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	return err == nil && (kind == "application/json" || strings.HasPrefix(kind, "application/") && strings.HasSuffix(kind, "+json"))
}

// parse returns a body's JSON, its numbers as they are written, or nil.
func parse(body []byte) any {
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

// maxItems bounds how many of a list in JSON are looked at.
const maxItems = 16

// at returns what stands at a path of names; * is every item of a list.
func at(v any, path string) []any {
	name, rest, more := strings.Cut(path, ".")
	if name == "*" {
		list, _ := v.([]any)
		var all []any
		for _, item := range list[:min(len(list), maxItems)] {
			if !more {
				all = append(all, item)
				continue
			}
			all = append(all, at(item, rest)...)
		}
		return all
	}
	object, _ := v.(map[string]any)
	value, ok := object[name]
	if !ok || value == nil {
		return nil
	}
	if more {
		return at(value, rest)
	}
	return []any{value}
}

// field returns a field of a JSON object, if v is one and the field a T.
func field[T any](v any, name string) (T, bool) {
	object, _ := v.(map[string]any)
	value, ok := object[name].(T)
	return value, ok
}

// number returns a JSON number.
func number(v any) (float64, bool) {
	n, ok := v.(json.Number)
	if !ok {
		return 0, false
	}
	f, err := n.Float64()
	return f, err == nil
}

// scalar returns a JSON string or number as it is written, and "" for what is neither.
func scalar(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}

// up returns a number of units, rounded up, at most quota.MaxLimit.
func up(n float64) quota.Units { return quota.Units(math.Ceil(min(n, float64(quota.MaxLimit)))) }

// quantity returns a field as a number of units, rounded down, or -1.
func quantity(v any, name string) quota.Units {
	object, _ := v.(map[string]any)
	n, ok := number(object[name])
	if !ok || n < 0 || n > float64(quota.MaxLimit) {
		return -1
	}
	return quota.Units(n)
}

// bucketName returns the upstream's name of a limit as it is shown and compared.
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

// The bounds of what is told, in bytes: of a text that is looked at, and of a
// Reason, which is what a ledger keeps of one.
const (
	maxText   = 20 * maxReason
	maxReason = 200
)

var (
	tags = regexp.MustCompile(`<[^>]*>`)
	keys = regexp.MustCompile(`AIza[\w-]+|\bsk-[\w-]{8,}|((?:key|token|upload_id)=)[^\s&"'<>]+`)
)

// clean returns text without markup, control characters and keys, cut to
// maxReason.
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
	if len(text) > maxReason {
		text = strings.ToValidUTF8(text[:maxReason], "")
	}
	return text
}

// httpStatus is a status as its own words.
func httpStatus(status int) string {
	return strings.TrimSpace(strconv.Itoa(status) + " " + http.StatusText(status))
}

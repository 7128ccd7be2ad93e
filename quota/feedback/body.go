package feedback

import (
	"encoding/json"
	"html"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// apiError is what can be read of an error's body. Its shape is only hoped for: every part
// may be missing, or of another type.
type apiError struct {
	status   int // of HTTP
	code     int // the body's own; 0: none. A 410 with a code of 503 occurs (google-api-dotnet-client issue 777)
	reasons  []string
	messages []string            // the error's own first
	details  []string            // the reasons of its details
	metadata []map[string]string // of its details
}

// maxItems bounds how many errors and details of one body are looked at.
const maxItems = 16

func readError(status int, body []byte) *apiError {
	e := &apiError{status: status}
	var top any
	if len(body) > maxBody || json.Unmarshal(body, &top) != nil {
		return e
	}
	if list, ok := top.([]any); ok && len(list) > 0 { // as streaming methods answer
		top = list[0]
	}
	fields, _ := field[map[string]any](top, "error")
	if code, ok := field[float64](fields, "code"); ok && code >= 400 && code < 600 {
		e.code = int(code)
	}
	add := func(list *[]string, from any, name string) {
		if text, ok := field[string](from, name); ok && text != "" {
			*list = append(*list, text)
		}
	}
	add(&e.messages, fields, "message")
	errs, _ := field[[]any](fields, "errors")
	for _, item := range errs[:min(len(errs), maxItems)] {
		add(&e.reasons, item, "reason")
		add(&e.messages, item, "message")
	}
	details, _ := field[[]any](fields, "details")
	for _, item := range details[:min(len(details), maxItems)] {
		add(&e.details, item, "reason")
		if metadata, ok := field[map[string]any](item, "metadata"); ok {
			data := map[string]string{}
			for _, name := range []string{"quota_limit", "quota_unit", "quota_metric", "quota_limit_value"} {
				data[name], _ = field[string](metadata, name)
			}
			e.metadata = append(e.metadata, data)
		}
	}
	return e
}

// field returns a field of a JSON object, if v is one and the field a T.
func field[T any](v any, name string) (T, bool) {
	object, _ := v.(map[string]any)
	value, ok := object[name].(T)
	return value, ok
}

var metricName = regexp.MustCompile(`quota metric '([^']{1,100})'`)

// metricInMessage returns the quota metric that a message names, or "".
func (e *apiError) metricInMessage() string {
	for _, message := range e.messages {
		if found := metricName.FindStringSubmatch(message); found != nil {
			return found[1]
		}
	}
	return ""
}

// maxReason bounds a Reason, in bytes: what a ledger keeps of it.
const maxReason = 200

// text returns the upstream's word for what is wrong, and its message.
func (e *apiError) text() string {
	word := strings.TrimSpace(strconv.Itoa(e.status) + " " + http.StatusText(e.status))
	for _, list := range [][]string{e.details, e.reasons} { // the last that has one holds
		if len(list) > 0 {
			word = list[0]
		}
	}
	text := word
	if len(e.messages) > 0 {
		text += ": " + e.messages[0]
	}
	return clean(text)
}

var (
	tags = regexp.MustCompile(`<[^>]*>`)
	keys = regexp.MustCompile(`AIza[\w-]+|((?:key|token|upload_id)=)[^\s&"'<>]+`)
)

// clean returns text without markup, control characters and keys, cut to
// maxReason.
func clean(text string) string {
	text = text[:min(len(text), 20*maxReason)]
	text = tags.ReplaceAllString(html.UnescapeString(text), "")
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

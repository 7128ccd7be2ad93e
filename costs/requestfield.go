package costs

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/ration-dev/ration/internal/strictyaml"
)

// requestField is a part of a request that decides its method, its price or its
// key.
type requestField struct {
	place string // query, header or body
	name  string // of the parameter or header, or the path of a field: options.size
}

// String describes the field in messages: query limit.
func (f *requestField) String() string { return f.place + " " + f.name }

// fields returns the keys of which exactly one names the field.
func (f *requestField) fields() []strictyaml.Field {
	var fields []strictyaml.Field
	for _, place := range []string{"query", "header", "body"} {
		fields = append(fields, strictyaml.Field{Key: place, Read: f.readAs(place)})
	}
	return fields
}

// readAs returns a function that reads the name of the field in a place.
func (f *requestField) readAs(place string) func(strictyaml.Node) {
	return func(n strictyaml.Node) {
		if f.place != "" {
			n.Mistake("%s beside %s: write one of them", place, f.place)
		}
		f.place, f.name = place, n.Text(maxText)
		if place == "header" {
			f.name = http.CanonicalHeaderKey(f.name)
		}
	}
}

// readWith reads a map with the keys of the field and others.
func (f *requestField) readWith(n strictyaml.Node, fields []strictyaml.Field) {
	before := n.Mistakes()
	if n.Fields(fields...); f.place == "" && n.Mistakes() == before {
		n.Mistake("no field of the request: write query: NAME, header: NAME or body: NAME")
	}
}

// values returns the values of the field, none if the request lacks it, and why
// they cannot be known.
func (f *requestField) values(req *http.Request) (values []any, reason string) {
	isRead := true
	switch f.place {
	case "query":
		values, isRead = parameters(req.URL.RawQuery, f.name)
	case "header":
		for _, value := range req.Header.Values(f.name) {
			values = append(values, value)
		}
	case "body":
		if values, isRead = bodyField(req, f.name); !isRead {
			return nil, "its " + f.name + " decides the price, and its body is longer than 1 MiB, compressed, " +
				"or neither JSON nor a form; send it plainly"
		}
	}
	if !isRead {
		return nil, "a query parameter is badly encoded; write it plainly"
	}
	return values, ""
}

// text returns the value of the field, "" if the request lacks it, and why it
// is uncertain.
func (f *requestField) text(req *http.Request) (text string, found bool, reason string) {
	values, reason := f.values(req)
	for i, value := range values {
		one, ok := textOf(value)
		if !ok {
			return "", false, "its " + f.String() + " is a list or an object; write a text"
		}
		if i > 0 && one != text {
			return "", false, "its " + f.String() + " has several values; write it once"
		}
		text = one
	}
	return text, len(values) > 0, reason
}

func textOf(value any) (text string, ok bool) {
	switch value := value.(type) {
	case string:
		return value, true
	case json.Number:
		return value.String(), true
	case bool:
		return strconv.FormatBool(value), true
	}
	return "", false
}

// parameters returns the values of a parameter in a query or form, in any case
// of its name. If there is a semicolon, which separates parameters for some
// servers only, the values of both readings count.
func parameters(raw, name string) (values []any, ok bool) {
	readings := []string{raw}
	if strings.Contains(raw, ";") {
		readings = append(readings, strings.ReplaceAll(raw, ";", "&"))
	}
	for _, reading := range readings {
		for pair := range strings.SplitSeq(reading, "&") {
			key, value, _ := strings.Cut(pair, "=")
			key, keyErr := url.QueryUnescape(key)
			value, valueErr := url.QueryUnescape(value)
			if keyErr != nil || valueErr != nil {
				return nil, false
			}
			if strings.EqualFold(key, name) {
				values = append(values, value)
			}
		}
	}
	return values, true
}

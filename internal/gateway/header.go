package gateway

import (
	"fmt"
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"
)

// AddHeader adds a header in the form Name: value.
func (a *Answer) AddHeader(text string) error {
	name, value, err := parseHeader(text)
	if err != nil {
		return err
	}
	if a.Headers == nil {
		a.Headers = map[string]HeaderValues{}
	}
	a.Headers[name] = append(a.Headers[name], value)
	return nil
}

// AddDump adds the last header in what curl --dump-header writes.
func (a *Answer) AddDump(dump string) error {
	for _, line := range lastHeader(dump) {
		if err := a.AddHeader(line); err != nil {
			return err
		}
	}
	return nil
}

// lastHeader returns the lines of the last header in what curl --dump-header
// writes: each answer begins with its status line.
func lastHeader(dump string) (lines []string) {
	for line := range strings.Lines(dump) {
		line = strings.TrimRight(line, "\r\n")
		if strings.HasPrefix(line, "HTTP/") {
			lines = nil
		} else if line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}

// parseHeader reads Name: value.
func parseHeader(text string) (name, value string, err error) {
	name, value, found := strings.Cut(text, ":")
	value = strings.Trim(value, " \t")
	if !found || !httpguts.ValidHeaderFieldName(name) || !httpguts.ValidHeaderFieldValue(value) {
		return "", "", fmt.Errorf("%q: write 'Name: value', such as 'Retry-After: 120'", text)
	}
	return textproto.CanonicalMIMEHeaderKey(name), value, nil
}

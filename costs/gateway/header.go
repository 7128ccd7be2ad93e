package gateway

import (
	"fmt"
	"net/textproto"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/ration-dev/ration/costs/human"
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

// Describe says what a report did to a call of a method.
func (r *ReportResult) Describe(method string) string {
	var parts []string
	if r.Units != nil {
		parts = append(parts, fmt.Sprintf("%s is charged %d", human.Name(method), *r.Units))
	}
	if r.Left != nil {
		parts = append(parts, fmt.Sprintf("the upstream has %d left of %s", r.Left.Units, human.Name(r.Left.Budget)))
	}
	if r.Cooldown != nil {
		parts = append(parts, r.Cooldown.String())
	}
	if r.Retry {
		parts = append(parts, "the call may be tried again")
	}
	if len(parts) == 0 {
		return "the answer says nothing about the quota"
	}
	return strings.Join(parts, "; ")
}

// Stop returns the cooldown if it lasts longer than a caller waits, so that its
// calls must stop, and otherwise nil.
func (r *ReportResult) Stop(maxWait time.Duration) *Cooldown {
	if c := r.Cooldown; c != nil && time.Duration(c.For)*time.Second > maxWait {
		return c
	}
	return nil
}

// String says what is in cooldown, why, and when to try again.
func (c *Cooldown) String() string {
	budget, length := "", time.Duration(c.For)*time.Second
	if c.Budget != nil {
		budget = *c.Budget
	}
	text := fmt.Sprintf("%s is in cooldown (%s)", human.Scope(c.Account, budget), human.Name(c.Reason))
	if c.Until == nil {
		return fmt.Sprintf("%s; try again in %s", text, human.Duration(length))
	}
	return fmt.Sprintf("%s; try again at %s (in %s)", text, human.Time(*c.Until), human.Duration(length))
}

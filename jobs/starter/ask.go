package starter

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/ration-dev/ration/costs"
)

// AskMissing asks for what is missing. It writes questions to out and reads an
// answer a line from in. Once it knows the API it returns the error that
// NewFiles would, before it asks for more.
func (o *Options) AskMissing(in io.Reader, out io.Writer) error {
	var names []string
	for _, p := range costs.Presets() {
		names = append(names, p.Name)
	}
	lines := bufio.NewReader(in)
	question := func(format string, args ...any) string {
		fmt.Fprintf(out, format+" ", args...)
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			fmt.Fprintln(out)
		}
		return strings.TrimSpace(line)
	}
	o.API = question("Which API: a preset (%s), or your upstream's host?", strings.Join(names, ", "))
	if _, err := NewFiles(*o); err != nil {
		return err
	}
	if o.Account == "" {
		o.Account = question("Whose quota is it, the upstream's project or account? [my-project]")
	}
	var err error
	switch {
	case len(o.Command) > 0:
	case !strings.HasPrefix(o.API, "youtube"):
		o.Command, err = CommandWords(question("Which program fetches, with its arguments? [./fetch.sh {region}]"))
	case len(o.Regions) == 0:
		o.Regions = strings.Fields(strings.ToUpper(strings.ReplaceAll(question("Which regions, by country code? [US]"), ",", " ")))
	}
	return err
}

// CommandWords splits a command at its spaces.
func CommandWords(command string) ([]string, error) {
	if strings.ContainsAny(command, `'"`) {
		return nil, fmt.Errorf("command %s: it is split at spaces and its quotes are not read; write a word with a space into regions.yaml afterwards", command)
	}
	return strings.Fields(command), nil
}

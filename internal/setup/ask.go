package setup

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strings"
)

// AskMissing asks for what is missing. It writes questions to out and reads an
// answer a line from in. Once it knows the API it returns the error that
// NewFiles would, before it asks for more.
func (o *StarterOptions) AskMissing(in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	question := func(format string, args ...any) string {
		fmt.Fprintf(out, format+" ", args...)
		line, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			fmt.Fprintln(out)
		}
		return strings.TrimSpace(line)
	}
	o.API = question("Which API: a preset such as youtube, github or slack (ration costs presets lists all), or " +
		"your upstream's host?")
	if _, err := NewFiles(*o); err != nil {
		return err
	}
	if o.Account == "" {
		o.Account = question("Whose quota is it, the upstream's project or account? [my-project]")
	}
	var err error
	switch {
	case o.WantsRegions():
	case strings.HasPrefix(o.API, "youtube"):
		answer := question("Which regions shall ration fetch on a schedule, by country code, as in US, IN? [none: " +
			"only guard calls]")
		o.Regions = strings.Fields(strings.ToUpper(strings.ReplaceAll(answer, ",", " ")))
	default:
		o.Command,
			err = CommandWords(question("Which program shall ration start on a schedule, as in ./fetch.sh {region}? " +
			"[none: only guard calls]"))
	}
	return err
}

// CommandWords splits a command at its spaces.
func CommandWords(command string) ([]string, error) {
	if strings.ContainsAny(command, `'"`) {
		return nil,
			fmt.Errorf("command %s: it is split at spaces and its quotes are not read; write a word with a space "+
				"into regions.yaml afterwards", command)
	}
	return strings.Fields(command), nil
}

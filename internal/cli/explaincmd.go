package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/quota"
)

// ExplainSetup is what the command needs of the one that it is part of.
type ExplainSetup struct {
	Prices    func() Pricer
	JSON      *bool // whether to print JSON
	WriteJSON func(document any) error
	Paragraph func(label, format string, args ...any)
	Stdin     io.Reader
	Now       func() time.Time
}

// Pricer reads costs.yaml.
type Pricer interface{ Prices() (*costs.Table, error) }

// print prints what explain has found.
func (s *ExplainSetup) print(document *report.Explanation) error {
	if *s.JSON {
		return s.WriteJSON(document)
	}
	for _, line := range document.Lines() {
		s.Paragraph(fmt.Sprintf("%-8s", line[0]), "%s", line[1])
	}
	return nil
}

// maxAnswer is how much of an answer is read.
const maxAnswer = 4 << 20

// ExplainCommand returns the command. exitCodes is the end of its help.
func ExplainCommand(s ExplainSetup, exitCodes string) *cobra.Command {
	var status int
	var method, upstream string
	var headers []string
	cmd := &cobra.Command{
		Use:   "explain [FILE]",
		Short: "Say how an upstream's answer is read, without doing anything",
		Long: `Explain reads an upstream's answer from a file or from stdin: as curl -i prints
it, or a HAR file or one of its entries. It says which rules matched, what they
read, and what ration would do: which budget it would stop and for how long,
what it would charge, what it would note as left. It does none of that.

The rules are those of answers in costs.yaml, then those of the dialect that
feedback names; see docs/answers.md. The call is the one of the HAR entry's
request, or --method; without either, the first method that has a cost.

` + exitCodes,
		Example: `  curl -si https://api.example.com/v1/items | ration explain
  ration explain --method items answer.http
  ration explain --status 429 --header 'Retry-After: 30' body.json`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			answer, err := s.read(args, status, headers)
			if err != nil {
				return &Error{Err: err}
			}
			table, err := s.Prices().Prices()
			if err != nil {
				return err
			}
			call, err := callOf(table, upstream, method, answer)
			if err != nil {
				return err
			}
			document, err := report.Explain(table, call, answer, s.Now)
			if err != nil {
				return &Error{Err: err}
			}
			return s.print(document)
		},
	}
	flags := cmd.Flags()
	flags.IntVar(&status, "status", 0, "the answer's HTTP `status`, if the file has only a body")
	flags.StringArrayVar(&headers, "header", nil, "a `header` of the answer, 'Name: value'; may be repeated")
	flags.StringVar(&method, "method", "", "the `method` of the call")
	flags.StringVar(&upstream, "upstream", "", "the upstream, if several have the method")
	return cmd
}

// read reads the answer from the file, stdin, or the flags.
func (s *ExplainSetup) read(args []string, status int, headers []string) (*report.Answer, error) {
	var in io.Reader
	switch {
	case len(args) > 0 && args[0] != "-":
		file, err := os.Open(args[0])
		if err != nil {
			return nil, err
		}
		defer file.Close()
		in = file
	case len(args) > 0 || status == 0:
		in = s.Stdin
	}
	var data []byte
	if in != nil {
		var err error
		if data, err = io.ReadAll(io.LimitReader(in, maxAnswer)); err != nil {
			return nil, err
		}
	}
	answer, err := report.ParseAnswer(data)
	if err != nil {
		return nil, err
	}
	if status != 0 {
		answer.Status = status
	}
	if answer.Status < 100 || answer.Status > 599 {
		return nil, errors.New("the answer has no status: pass what curl -i prints, or --status 429")
	}
	for _, header := range headers {
		if err := answer.AddHeader(header); err != nil {
			return nil, fmt.Errorf("--header: %w", err)
		}
	}
	return answer, nil
}

// callOf returns the call that the answer is to. It has no method if the
// answer's own request says which one it is.
func callOf(table *costs.Table, upstream, method string, answer *report.Answer) (quota.Call, error) {
	if method == "" && answer.URL != "" {
		return quota.Call{}, nil
	}
	if method == "" {
		for _, u := range table.Upstreams() {
			if (upstream == "" || u.Name == upstream) && len(u.Costs) > 0 {
				upstream, method = u.Name, u.Costs[0].Method
				break
			}
		}
	}
	return Call(table, upstream, method)
}

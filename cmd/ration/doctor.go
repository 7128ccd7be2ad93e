package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/internal/inspect"
)

func (a *app) doctorCommand() *cobra.Command {
	var at, keyFile string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check the configuration, the ledger, clocks and Redis settings",
		Long: `Doctor checks what the other commands rely on and says how to fix each problem.
It does not call the upstream, spends nothing and leaves nothing behind. Pass
the same --key-file as to run. With --at it checks as of another time, such as
a date next year.

` + exitCodes(exitLedger, exitConfig) + `

A warning does not change the exit code.`,
		Example: "  ration doctor\n  ration doctor --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := a.setNow(at); err != nil {
				return err
			}
			return a.doctor(cmd.Context(), keyFile)
		},
	}
	cmd.Flags().StringVar(&keyFile, "key-file", "", "`file` that holds the API key")
	cmd.Flags().StringVar(&at, "at", "", "check as of this `time` (RFC 3339)")
	return cmd
}

func (a *app) doctor(ctx context.Context, keyFile string) error {
	c := &inspect.Checkup{Message: message, Now: a.now}
	c.Examine(ctx, a.setup(), keyFile)
	if a.json {
		if err := a.writeJSON(map[string]any{"findings": c.Findings}); err != nil {
			return err
		}
	} else {
		for _, f := range c.Findings {
			a.paragraph(fmt.Sprintf("%-8s ", f.Grade), "%s", f.What)
			if f.Do != nil {
				a.paragraph(fmt.Sprintf("%-8s -> ", ""), "%s", *f.Do)
			}
		}
	}
	if c.Err != nil {
		return &reported{c.Err}
	}
	return nil
}

package cli

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/inbound"
)

// LimitSetup is what the command needs of the one that it is part of.
type LimitSetup struct {
	// With calls use with a client of costs.yaml.
	With func(use func(*client.Client) error) error
	// Print prints a document, or what it says in words, and returns the error
	// by which the command exits.
	Print func(document any, words string, refusal error) error
}

// refusedError is a request that does not fit.
type refusedError struct{ *gateway.Limit }

func (e *refusedError) Error() string { return e.Describe() }
func (e *refusedError) Unwrap() error { return quota.ErrRefused }

// LimitCommand returns the command. exitCodes is the end of its help.
func LimitCommand(s LimitSetup, exitCodes string) *cobra.Command {
	var estimate bool
	cmd := &cobra.Command{
		Use:   "limit CLIENT LIMIT/WINDOW",
		Short: "Limit a client of your own: exit 0 answer it, 75 not now",
		Long: `Limit counts a request that a client has made of your own program, if it fits
the limit. If it exits with 0, answer the request; with 75, tell the client to
come back later. The window slides. CLIENT is any name, such as an address or a
user. Each limit of a client counts by itself.

The counts are shared by all processes with this state folder, and the gateway's
POST /v1/limit; with a ledger in Redis, by all hosts. docs/inbound.md has more.

` + exitCodes,
		Example: `  ration limit "$REMOTE_ADDR" 60/1m || exit
  ration limit "login $USER" 5/15m --json`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			limit, err := parse(args[1])
			if err != nil {
				return &Error{Err: err}
			}
			limit.Estimate = estimate
			return s.count(cmd.Context(), args[0], limit)
		},
	}
	cmd.Flags().BoolVar(&estimate, "estimate", false,
		"keep two counts in place of a log, for limits above 1,000; see docs/inbound.md")
	return cmd
}

func (s *LimitSetup) count(ctx context.Context, who string, limit inbound.Limit) error {
	var found *gateway.Limit
	err := s.With(func(c *client.Client) (err error) {
		found, err = gateway.NewLimit(ctx, c, who, limit)
		if errors.Is(err, quota.ErrBadCall) {
			err = &Error{Err: err}
		}
		return err
	})
	if err != nil {
		return err
	}
	if !found.Allowed {
		err = &refusedError{found}
	}
	return s.Print(found, found.Describe(), err)
}

// parse reads a limit such as 60/1m.
func parse(text string) (limit inbound.Limit, err error) {
	calls, window, _ := strings.Cut(text, "/")
	limit.Calls, err = strconv.ParseInt(calls, 10, 64)
	if err == nil {
		limit.Per, err = human.ParseDuration(window)
	}
	if err != nil {
		return limit, fmt.Errorf("%q is not a limit; write one such as 60/1m", text)
	}
	return limit, nil
}

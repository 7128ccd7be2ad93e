package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/internal/setup"
)

// listenFlags are the flags of commands with a gateway for other programs.
type listenFlags struct {
	setup.GatewayOptions
	optional bool // the address may be none
	asked    bool // the address was given
	grace    time.Duration
}

// noAddress is the address of serve without a gateway.
const noAddress = "none"

func (f *listenFlags) define(cmd *cobra.Command) {
	flags, none := cmd.Flags(), ""
	if f.optional {
		none = ", or none"
	}
	flags.StringVar(&f.Address, "listen", setup.DefaultAddress,
		"`address` of the gateway: HOST:PORT, where port 0 is any that is free, or unix:PATH"+none)
	flags.StringVar(&f.TokenFile, "token-file", "",
		"`file` that holds the token that requests must have (else RATION_TOKEN)")
	flags.StringArrayVar(&f.Hosts, "host", nil, "accept requests to this `name` of the host too; may be repeated")
	flags.BoolVar(&f.Intercept, "intercept", false,
		"be a proxy for HTTPS_PROXY too, and read the requests to guarded hosts with the authority that ration ca "+
			"prints")
	cli.SecondsVar(flags, &f.MaxWait, "max-wait",
		"longest wait of a proxied request for its units, if its Ration-Max-Wait gives none")
	f.grace = 10 * time.Second
}

func (f *listenFlags) check(cmd *cobra.Command) error {
	f.asked = cmd.Flags().Changed("listen")
	if !f.optional || f.Address != noAddress {
		if err := checkListen(f.Address); err != nil {
			return err
		}
	}
	for i, host := range f.Hosts {
		if host == "" || strings.ContainsAny(host, "/:@* ") {
			return &cli.Error{Err: fmt.Errorf("--host %q: write a name without a port, such as ration.internal", host)}
		}
		f.Hosts[i] = strings.ToLower(host)
	}
	if f.grace <= 0 || f.grace > 5*time.Minute {
		return &cli.Error{Err: fmt.Errorf("--grace %s: give more than 0, up to 5m", human.Exactly(f.grace))}
	}
	return nil
}

// checkListen checks the address that --listen gives.
func checkListen(address string) error {
	if err := gateway.CheckAddress(address); err != nil {
		return &cli.Error{Err: fmt.Errorf("--listen %w", err)}
	}
	return nil
}

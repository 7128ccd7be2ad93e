package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/cmd/ration/internal/durationflag"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs"
)

func (a *app) proxyCommand() *cobra.Command {
	var f listenFlags
	cmd := &cobra.Command{
		Use:   "proxy",
		Short: "Guard programs in any language through a local HTTP gateway",
		Long: `Proxy serves the gateway in the foreground: programs send their requests to
RATION_URL/to/HOST/PATH, where they are charged, sent on or refused, or ask with
POST /v1/spend before they call by themselves. It needs only costs.yaml. It
prints one line once it accepts requests. docs/gateway.md describes the gateway.

Every program of this host may use a loopback address or a socket, unless there
is a token. Any other address needs one.

While the ledger is down it answers 503, or grants within when_ledger_down. On
SIGHUP it reloads costs.yaml, and keeps the old one if the file is invalid or
names another ledger. On SIGTERM or SIGINT it answers the requests in flight,
for up to --grace, and exits 0.

` + exitCodes(exitConfig) + `
Once started, it exits only with 0.`,
		Example: `  ration proxy
  ration proxy --listen 0.0.0.0:8377 --host ration.internal --token-file /srv/ration/token
  ration proxy --listen unix:/run/ration/gateway.sock`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return a.proxy(cmd.Context(), &f)
		},
	}
	f.define(cmd, "")
	durationflag.SecondsVar(cmd.Flags(), &f.grace, "grace", "how long to wait for requests in flight when stopping")
	return cmd
}

func (a *app) proxy(ctx context.Context, f *listenFlags) error {
	s, stop := a.newService()
	defer stop()
	door, err := a.setup().OpenDoor(&f.DoorOptions)
	if err != nil {
		return err
	}
	s.door = door
	door.HandleClient("GET /metrics", s.metrics.show)
	var used *client.Client
	load := func() (status string, err error) {
		before := used
		err = s.load(func() (*client.Client, *configuration, error) {
			c, later, err := s.openCosts(ctx)
			if err == nil {
				used = c
			}
			return c, later, err
		})
		if err == nil && before != nil {
			s.release(before, func() { before.Close() })
		}
		return "STATUS=serving", err
	}
	defer s.closing.Wait()
	defer func() {
		if used != nil {
			s.release(used, func() { used.Close() })
		}
	}()
	defer door.Close()
	if _, err := load(); isFatal(err) {
		return err
	}
	s.listen(f.grace)
	s.systemd.notify("READY=1", "STATUS=serving")
	s.wait(ctx, load, func() bool { return true })
	s.systemd.notify("STOPPING=1", "STATUS=waiting for the requests in flight")
	return nil
}

// openCosts reads costs.yaml and opens what it names.
func (s *service) openCosts(ctx context.Context) (*client.Client, *configuration, error) {
	table, err := s.setup().Prices()
	if err != nil {
		return nil, nil, err
	}
	if err := s.setup().CheckCredentials(table); err != nil {
		return nil, nil, err
	}
	later := s.newConfiguration(table, &jobs.Config{}, "")
	if err := s.checkMove(later); err != nil {
		return nil, nil, err
	}
	if _, err := s.setup().MakeState(); err != nil {
		return nil, nil, err
	}
	c, err := s.setup().Open(table, true)
	if err == nil {
		s.warnOfMove(ctx, c)
	}
	return c, later, err
}

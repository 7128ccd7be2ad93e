package main

import (
	"context"
	"fmt"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/setup"
)

// statusPage serves the page until ctx ends.
func (a *app) statusPage(ctx context.Context, openBrowser bool) error {
	return a.readLedger(func(c *client.Client) error {
		d, err := a.setup().OpenGateway(&setup.GatewayOptions{Address: "127.0.0.1:0", Page: true})
		if err != nil {
			return err
		}
		a.warnUnfilled(cli.FillEntries(ctx, a.setup(), c)) // the days of the chart
		defer func() { d.Close(); d.Release(c) }()
		d.Use(c)
		d.Serve(setup.PrivateGrace)
		fmt.Fprintf(a.stderr, "ration: the page is at %s/ until you press Ctrl-C\n", d.URL)
		if openBrowser {
			cli.Browse(d.URL + "/")
		}
		<-ctx.Done()
		return nil
	})
}

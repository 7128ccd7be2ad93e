package daemon

import (
	"context"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/jobs"
)

// Proxy serves a gateway until ctx ends.
func Proxy(ctx context.Context, o *Options, listen *setup.GatewayOptions) error {
	d := newService(o)
	if err := d.openGateway(listen); err != nil {
		return err
	}
	var used *client.Client
	load := func() (status string, err error) {
		before := used
		err = d.load(func() (*client.Client, *configuration, error) {
			c, later, err := d.openCosts(ctx)
			if err == nil {
				used = c
			}
			return c, later, err
		})
		if err == nil && before != nil {
			d.release(before, func() { before.Close() })
		}
		return "STATUS=serving", err
	}
	defer d.closing.Wait()
	defer func() {
		if used != nil {
			d.release(used, func() { used.Close() })
		}
	}()
	defer d.gateway.Close()
	if _, err := load(); d.isFatal(err) {
		return err
	}
	d.listen()
	d.systemd.notify("READY=1", "STATUS=serving")
	d.wait(ctx, load, func() bool { return true })
	d.systemd.notify("STOPPING=1", "STATUS=waiting for the requests in flight")
	return nil
}

// openCosts reads costs.yaml and opens what it names.
func (s *service) openCosts(ctx context.Context) (*client.Client, *configuration, error) {
	table, err := s.setup.Prices()
	if err != nil {
		return nil, nil, err
	}
	if err := s.setup.CheckCredentials(table); err != nil {
		return nil, nil, err
	}
	later := s.newConfiguration(table, &jobs.Config{})
	if err := s.checkMove(later); err != nil {
		return nil, nil, err
	}
	if _, err := s.setup.MakeState(); err != nil {
		return nil, nil, err
	}
	c, err := s.setup.Open(table, true)
	if err == nil {
		s.warnOfMove(ctx, c)
	}
	return c, later, err
}

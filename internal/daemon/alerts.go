package daemon

import (
	"context"
	"sync"

	"github.com/ration-dev/ration/costs/client"
)

// startWatch begins to send the alerts of a client, and to read what is new in
// its ledger, so that a loss is restored although no calls are made.
func (s *service) startWatch(c *client.Client) {
	log := s.log
	w := s.setup.NewWatch(c, func(err error) { log.Warn("alert not sent", "reason", err.Error()) })
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	running.Go(func() { c.KeepReading(ctx) })
	s.watches.Store(c, func() { cancel(); running.Wait() })
}

// stopWatch ends that, before the client is closed.
func (s *service) stopWatch(c *client.Client) {
	if stop, ok := s.watches.LoadAndDelete(c); ok {
		stop.(func())()
	}
}

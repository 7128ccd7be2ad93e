package main

import (
	"context"
	"sync"
	"time"

	"github.com/ration-dev/ration/costs/alert"
	"github.com/ration-dev/ration/costs/client"
)

// alertTime is how long a run may take for its alerts when it is done.
const alertTime = 30 * time.Second

// checkAlerts sends the alerts that are due when a run is done, and none when it was
// interrupted.
func (a *app) checkAlerts(ctx context.Context, w *alert.Watch) {
	ctx, cancel := context.WithTimeout(ctx, alertTime)
	defer cancel()
	w.Check(ctx)
}

// watches send the alerts of a daemon's clients. The zero value has none.
type watches struct {
	mu    sync.Mutex
	stops map[*client.Client]func()
}

// startWatch begins to send the alerts of a client.
func (s *service) startWatch(c *client.Client) {
	log := s.log
	w := s.setup().NewWatch(c, func(err error) { log.Warn("alert not sent", "reason", err.Error()) })
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { w.Run(ctx) })
	s.watches.mu.Lock()
	defer s.watches.mu.Unlock()
	if s.watches.stops == nil {
		s.watches.stops = map[*client.Client]func(){}
	}
	s.watches.stops[c] = func() { cancel(); running.Wait() }
}

// stop ends that, before the client is closed.
func (w *watches) stop(c *client.Client) {
	w.mu.Lock()
	stop := w.stops[c]
	delete(w.stops, c)
	w.mu.Unlock()
	if stop != nil {
		stop()
	}
}

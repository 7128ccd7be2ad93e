package daemon

import (
	"context"
	"sync"

	"github.com/ration-dev/ration/costs/client"
)

// watches send the alerts of a daemon's clients. The zero value has none.
type watches struct {
	mu    sync.Mutex
	stops map[*client.Client]func()
}

// startWatch begins to send the alerts of a client.
func (s *service) startWatch(c *client.Client) {
	log := s.log
	w := s.setup.NewWatch(c, func(err error) { log.Warn("alert not sent", "reason", err.Error()) })
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

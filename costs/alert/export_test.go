package alert

import "github.com/ration-dev/ration/costs/client"

// Impatient makes the next attempts to send follow at once.
func (w *Watch) Impatient() *Watch {
	w.pause = 0
	return w
}

// Client returns the client that is watched.
func (w *Watch) Client() *client.Client { return w.client }

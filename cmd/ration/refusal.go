package main

import "github.com/ration-dev/ration/costs/client"

// keepRefusal records the refusal that ended a command, for why.
func (a *app) keepRefusal(err error) {
	if a.client != nil {
		a.client.RepeatRefusal(err)
	}
}

// readRefusal returns the last refusal, and nil when none is known.
func (a *app) readRefusal() (*client.Refusal, error) {
	dir, err := a.state()
	if err != nil {
		return nil, err
	}
	return client.LastRefusal(dir)
}

package main

import (
	"context"
	"time"

	"github.com/ration-dev/ration/costs/alert"
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

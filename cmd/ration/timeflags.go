package main

import (
	"time"

	"github.com/ration-dev/ration/cmd/ration/internal/cmdline"
)

// setNow makes the time that --at gives the present time of the command; "" is
// the clock's.
func (a *app) setNow(at string) error {
	if at == "" {
		return nil
	}
	now, err := cmdline.ParseTime("--at", at, cmdline.LastNowYear)
	if err == nil {
		a.now, a.fixed, a.elsewhen = func() time.Time { return now }, true, true
	}
	return err
}

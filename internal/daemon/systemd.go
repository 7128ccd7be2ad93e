package daemon

import (
	"fmt"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
)

// systemdNotifier tells systemd how serve is doing (sd_notify(3)). It is a
// no-op if the environment has no NOTIFY_SOCKET.
type systemdNotifier struct{}

// notify sends the lines in one datagram.
func (systemdNotifier) notify(lines ...string) error {
	_, err := daemon.SdNotify(false, strings.TrimSpace(strings.Join(lines, "\n")))
	if err != nil {
		return fmt.Errorf("%w; unset NOTIFY_SOCKET if systemd does not run serve", err)
	}
	return nil
}

// watchdog returns a channel that says when to send a sign of life: twice in
// the time after which systemd considers serve dead, as sd_watchdog_enabled(3)
// advises. The channel is nil if systemd expects none.
func (systemdNotifier) watchdog() (<-chan time.Time, func()) {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil || interval <= 0 {
		return nil, func() {}
	}
	ticker := time.NewTicker(max(interval/2, time.Millisecond))
	return ticker.C, ticker.Stop
}

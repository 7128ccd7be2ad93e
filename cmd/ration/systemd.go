package main

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// notifier tells systemd how serve is doing, by sd_notify's protocol
// (sd_notify(3) of systemd 252): datagrams of VARIABLE=VALUE lines to the socket
// that NOTIFY_SOCKET names. A nil notifier tells nobody.
type notifier struct {
	socket   *net.UnixAddr
	interval time.Duration // of the watchdog; 0: none is asked for
}

// notifier returns nil when nobody listens.
func (a *app) notifier() (*notifier, error) {
	name := a.getenv("NOTIFY_SOCKET")
	if name == "" {
		return nil, nil
	}
	if !strings.HasPrefix(name, "/") && !strings.HasPrefix(name, "@") { // @: abstract, as Go writes it too
		return nil, fmt.Errorf("NOTIFY_SOCKET %q is no Unix socket; unset it, or run serve under Type=notify", name)
	}
	n := &notifier{socket: &net.UnixAddr{Name: name, Net: "unixgram"}}
	micros, err := strconv.ParseInt(a.getenv("WATCHDOG_USEC"), 10, 64)
	if pid := a.getenv("WATCHDOG_PID"); err == nil && micros > 0 && (pid == "" || pid == strconv.Itoa(os.Getpid())) {
		n.interval = time.Duration(min(micros, 1<<50)) * time.Microsecond
	}
	return n, n.tell("STATUS=starting")
}

// tell sends lines in one datagram; empty ones are left out.
func (n *notifier) tell(lines ...string) error {
	if n == nil {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, n.socket)
	if err != nil {
		return fmt.Errorf("%w; unset NOTIFY_SOCKET if nobody listens", err)
	}
	_, err = conn.Write([]byte(strings.TrimSpace(strings.Join(lines, "\n"))))
	return errors.Join(err, conn.Close())
}

// watchdog returns a channel that says when to show a sign of life, twice in
// the time after which systemd takes serve for dead, as sd_watchdog_enabled(3) advises.
func (n *notifier) watchdog() (<-chan time.Time, func()) {
	if n == nil || n.interval <= 0 {
		return nil, func() {}
	}
	ticker := time.NewTicker(max(n.interval/2, time.Millisecond))
	return ticker.C, ticker.Stop
}

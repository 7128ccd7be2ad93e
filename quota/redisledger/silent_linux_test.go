package redisledger_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
)

// hole returns an address that neither accepts nor refuses connections, like a
// host that is gone: its queue is full, so Linux drops the packets.
func hole(t *testing.T) string {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}), syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	addr := fmt.Sprintf("127.0.0.1:%d", name.(*syscall.SockaddrInet4).Port)
	for range 20 {
		conn, err := net.DialTimeout("tcp", addr, 100*time.Millisecond)
		if err != nil {
			return addr
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	t.Fatal("the queue does not fill")
	return ""
}

// silent returns an address that accepts connections and never answers.
func silent(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// TestHostsThatAreGone: in every topology, a spend ends within about a second
// and is not in doubt, since nothing was sent. One host that answers is enough.
func TestHostsThatAreGone(t *testing.T) {
	if testing.Short() {
		t.Skip("waits three seconds for hosts that are gone")
	}
	node := redistest.Start(t, "--cluster-enabled", "yes")
	node.AddSlots(t, 0, redistest.Slots)
	redistest.Await(t, "the cluster", func() bool {
		return strings.Contains(node.Do(t, "cluster", "info").(string), "cluster_state:ok")
	})
	gone, mute := hole(t), silent(t)
	for url, want := range map[string]error{
		"redis://" + gone:                                  quota.ErrLedgerDown,
		"redis://" + mute:                                  quota.ErrLedgerDown,
		"rediss://" + mute:                                 quota.ErrLedgerDown,
		"redis+cluster://" + gone + "," + mute:             quota.ErrLedgerDown,
		"rediss+cluster://" + gone + "," + mute:            quota.ErrLedgerDown,
		"redis+sentinel://" + gone + "," + mute + "/main":  quota.ErrLedgerDown,
		"rediss+sentinel://" + gone + "," + mute + "/main": quota.ErrLedgerDown,
		"redis+cluster://" + gone + "," + node.Addr:        nil,
	} {
		t.Run(strings.NewReplacer(gone, "gone", mute, "mute", node.Addr, "node").Replace(url), func(t *testing.T) {
			t.Parallel()
			l := fresh(t, url, nil)
			var err error
			for range 3 {
				began := time.Now()
				_, err = spend(t, l, "m", 1, day)
				if took := time.Since(began); took > tolerated || err != nil && !errors.Is(err, quota.ErrLedgerDown) {
					t.Errorf("%v after %s; want an answer in about a second", err, took)
				}
				if err == nil { // it may dial the wrong one at first
					break
				}
			}
			if !errors.Is(err, want) {
				t.Errorf("%v; want %v", err, want)
			}
		})
	}
}

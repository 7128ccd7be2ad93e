//go:build unix

package daemon_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"
)

// listenFor is systemd's side of sd_notify.
func listenFor(t *testing.T, name string) chan string {
	t.Helper()
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	messages := make(chan string, 1000)
	go func() {
		for buffer := make([]byte, 4096); ; {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			messages <- string(buffer[:n])
		}
	}()
	return messages
}

// tells waits for a message that matches, and returns it.
func tells(t *testing.T, messages chan string, pattern string) string {
	t.Helper()
	matches := regexp.MustCompile(pattern)
	for late := time.After(30 * time.Second); ; {
		select {
		case message := <-messages:
			if matches.MatchString(message) {
				return message
			}
		case <-late:
			t.Fatalf("systemd is not told %q within half a minute", pattern)
		}
	}
}

// TestServeReloads: a reload brings a new region in; a broken file is told with
// its lines and changes nothing; systemd hears of both.
func TestServeReloads(t *testing.T) {
	s := newStand(t, plentyOfUnits, "[{trending: {pages: 1}}]", "US")
	good := s.read("regions.yaml")
	for _, name := range []string{filepath.Join(t.TempDir(), "notify"), fmt.Sprintf("@ration-test-%d", os.Getpid())} {
		if name[0] == '@' && runtime.GOOS != "linux" {
			continue // abstract sockets are Linux's
		}
		s.write("regions.yaml", good)
		systemd := listenFor(t, name)
		t.Setenv("NOTIFY_SOCKET", name)
		t.Setenv("WATCHDOG_USEC", "200000")
		d := s.serve()
		tells(t, systemd, `^READY=1\nSTATUS=serving 1 region$`)
		tells(t, systemd, `^WATCHDOG=1$`)
		tells(t, systemd, `^WATCHDOG=1$`)

		s.write("regions.yaml", strings.Replace(good, "version: 1\n", "version: 1\ncolour: red\nmax_wait: 7 s\n", 1))
		d.reload()
		reloading := tells(t, systemd, `^RELOADING=1`)
		if runtime.GOOS == "linux" &&
			!regexp.MustCompile(`^RELOADING=1\nMONOTONIC_USEC=[0-9]{6,}$`).MatchString(reloading) {
			t.Errorf("systemd received %q; want the time by the monotonic clock", reloading)
		}
		tells(t, systemd, `^READY=1\nSTATUS=the configuration could not be loaded again, the old one stays in force`)
		file := regexp.QuoteMeta(filepath.Join(s.dir, "regions.yaml"))
		d.says(`level=ERROR msg="configuration not loaded" reason="` + file + `:2:1: unknown key \\"colour\\"`)
		d.says(`level=ERROR msg="configuration not loaded" reason="` + file + `:3:11: max_wait`)
		d.says(`level=WARN msg="the old configuration stays in force"`)

		s.write("regions.yaml", strings.Replace(good, "{US: {}}", "{US: {}, IN: {}}", 1))
		d.reload()
		tells(t, systemd, `^RELOADING=1`)
		tells(t, systemd, `^READY=1\nSTATUS=serving 2 regions$`)
		d.says(`msg=serving regions=2`)
		d.says(passOf("IN", "(complete|skipped)"))
		d.ends()
		tells(t, systemd, `^STOPPING=1`)
	}
	if got := s.upstream.Total(); got != 2 {
		t.Errorf("the upstream counted %d units; want one page a region", got)
	}
}

// TestServeStartsWithoutSystemd: a NOTIFY_SOCKET to which nothing listens is
// not a reason to fail.
func TestServeStartsWithoutSystemd(t *testing.T) {
	s := newStand(t, plentyOfUnits, "[{trending: {pages: 1}}]", "US")
	for _, socket := range []string{filepath.Join(t.TempDir(), "gone"), "vsock:2:1"} {
		t.Setenv("NOTIFY_SOCKET", socket)
		d := s.serve()
		d.says(`level=WARN msg="systemd is not told" reason=.*unset`)
		d.says("msg=listening")
		d.ends()
	}
}

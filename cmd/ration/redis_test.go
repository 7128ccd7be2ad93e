package main

import (
	"net"
	"os"
	"os/exec"
	"testing"
	"time"
)

// startedRedis starts a redis-server for a test and returns its URL.
func startedRedis(t *testing.T, args ...string) string {
	t.Helper()
	url, _ := redisProcess(t, args...)
	return url
}

// redisProcess starts a redis-server, and returns its URL and what kills it and
// starts it again.
func redisProcess(t *testing.T, args ...string) (url string, restart func(meanwhile func())) {
	t.Helper()
	needRedis(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	listener.Close()
	args = append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", t.TempDir()}, args...)
	var server *exec.Cmd
	start := func() {
		server = exec.Command("redis-server", args...)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			if conn, err := net.Dial("tcp", "127.0.0.1:"+port); err == nil {
				conn.Close()
				return
			}
			if time.Now().After(end) {
				t.Fatal("redis-server did not start within ten seconds")
			}
		}
	}
	stop := func() { server.Process.Kill(); server.Wait() }
	start()
	t.Cleanup(func() { stop() })
	return "redis://127.0.0.1:" + port, func(meanwhile func()) {
		stop()
		meanwhile()
		start()
	}
}

func needRedis(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("redis-server"); err == nil {
		return
	} else if os.Getenv("RATION_REQUIRE_REDIS") != "" {
		t.Fatalf("%v, and RATION_REQUIRE_REDIS is set: make deps installs it", err)
	} else {
		t.Skipf("SKIPPED, %v: make deps installs it", err)
	}
}

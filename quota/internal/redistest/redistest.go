// Package redistest starts a real redis-server for a test.
package redistest

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Server is a redis-server of a test.
type Server struct {
	Addr string // host:port on the loopback
	Dir  string // its working folder
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// URL returns the server's address as a URL.
func (s *Server) URL() string { return "redis://" + s.Addr + "/0" }

// PID returns the id of the server's process, for signals.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Start starts a server on a free port of the loopback, with more arguments
// after those that keep it from writing to disk. It answers before Start
// returns and is killed when the test ends. Without a redis-server on this
// machine the test is skipped, or fails when RATION_REQUIRE_REDIS=1.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	if err != nil {
		if os.Getenv("RATION_REQUIRE_REDIS") == "1" {
			t.Fatal("redistest: no redis-server on this machine, and RATION_REQUIRE_REDIS=1; install Redis 6.2 or later")
		}
		t.Skip("redistest: SKIPPED, no redis-server on this machine; install Redis 6.2 or later to run this test")
	}
	s, err := run(binary, t.TempDir(), args)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	t.Cleanup(s.Stop)
	return s
}

// Stop kills the server, as a power cut would, and waits for its end.
func (s *Server) Stop() {
	_ = s.cmd.Process.Kill()
	<-s.done
}

// run starts a server. Another process may take the port between its choice
// and the start, so it tries several.
func run(binary, dir string, args []string) (*Server, error) {
	var err error
	for range 5 {
		var s *Server
		if s, err = tryRun(binary, dir, args); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func tryRun(binary, dir string, args []string) (*Server, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	log := filepath.Join(dir, "redis.log")
	line := append([]string{"--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no",
		"--dir", dir, "--logfile", log, "--daemonize", "no"}, args...)
	s := &Server{Addr: fmt.Sprintf("127.0.0.1:%d", port), Dir: dir, cmd: exec.Command(binary, line...), done: make(chan struct{})}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait()
		close(s.done)
	}()
	if s.answers() {
		return s, nil
	}
	_ = s.cmd.Process.Kill()
	<-s.done
	text, _ := os.ReadFile(log)
	return nil, fmt.Errorf("redis-server did not start; its log: %s", strings.TrimSpace(string(text)))
}

func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

// answers waits until the server answers a PING, if only with an error.
func (s *Server) answers() bool {
	deadline := time.After(10 * time.Second)
	for {
		if ping(s.Addr) {
			return true
		}
		select {
		case <-s.done:
			return false
		case <-deadline:
			return false
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func ping(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, time.Second)
	if err != nil {
		return false
	}
	defer conn.Close()
	_ = conn.SetDeadline(time.Now().Add(time.Second))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && (strings.HasPrefix(answer, "+PONG") || strings.HasPrefix(answer, "-NO"))
}

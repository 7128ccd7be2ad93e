// Package servers starts real Redis and PostgreSQL servers for tests.
package servers

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// Redis is a redis-server process of a test.
type Redis struct {
	Addr string // host:port on loopback
	Dir  string // its working folder
	cmd  *exec.Cmd
	done chan struct{} // closed when the process has ended
}

// URL returns the server's address as a URL.
func (s *Redis) URL() string { return "redis://" + s.Addr + "/0" }

// StartRedis starts a server on a free loopback port. Its arguments are args
// after those that disable persistence. The server is ready when Start returns,
// and is killed when the test ends. Without a redis-server on this machine, the
// test is skipped, or fails if RATION_REQUIRE_REDIS=1.
func StartRedis(t testing.TB, args ...string) *Redis {
	t.Helper()
	return StartRedisBy(t, nil, args...)
}

// StartRedisBy starts a server as Start does, by a program that becomes what
// its last arguments say, such as strace -D.
func StartRedisBy(t testing.TB, program []string, args ...string) *Redis {
	t.Helper()
	return startRedis(t, program, append([]string{"--save", "", "--appendonly", "no"}, args...))
}

// RedisBinary returns the path of redis-server. Without one on this machine,
// the test is skipped, or fails if RATION_REQUIRE_REDIS=1.
func RedisBinary(t testing.TB) string {
	t.Helper()
	binary, err := exec.LookPath("redis-server")
	switch {
	case err == nil:
	case os.Getenv("RATION_REQUIRE_REDIS") == "1":
		t.Fatal("redistest: no redis-server on this machine, and RATION_REQUIRE_REDIS=1; install Redis 6.2 or later")
	default:
		t.Skip("redistest: SKIPPED, no redis-server on this machine; install Redis 6.2 or later to run this test")
	}
	return binary
}

func startRedis(t testing.TB, program, args []string) *Redis {
	t.Helper()
	s, err := run(append(program, RedisBinary(t)), t.TempDir(), args)
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	t.Cleanup(func() {
		s.Stop()
		for range 1000 { // a child that saves outlives the server for a moment, and writes to its folder
			if os.RemoveAll(s.Dir) == nil {
				return
			}
			time.Sleep(time.Millisecond)
		}
	})
	return s
}

// Restart starts a stopped server again, on the same port and in the
// same folder.
func (s *Redis) Restart(t testing.TB, more ...string) {
	t.Helper()
	s.cmd, s.done = exec.Command(s.cmd.Path, append(s.cmd.Args[1:], more...)...), make(chan struct{})
	if err := s.startProcess(); err != nil {
		t.Fatalf("redistest: restart: %v", err)
	}
}

func (s *Redis) signal(t testing.TB, signal os.Signal) {
	t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		t.Fatalf("redistest: %v", err)
	}
}

// Stop kills the server and waits until its process has ended.
func (s *Redis) Stop() {
	_ = s.cmd.Process.Kill()
	<-s.done
}

// run starts a server. It tries several ports, because another process may take
// one before the server does.
func run(program []string, dir string, args []string) (s *Redis, err error) {
	for range 5 {
		if s, err = tryRun(program, dir, args); err == nil {
			return s, nil
		}
	}
	return nil, err
}

func tryRun(program []string, dir string, args []string) (*Redis, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	var line []string
	if len(args) > 0 && !strings.HasPrefix(args[0], "--") { // a configuration file must come first
		line, args = args[:1:1], args[1:]
	}
	line = append(line, "--port", fmt.Sprint(port), "--bind", "127.0.0.1",
		"--dir", dir, "--logfile", filepath.Join(dir, "redis.log"), "--daemonize", "no")
	line = slices.Concat(program[1:], line, args)
	s := &Redis{Addr: fmt.Sprintf("127.0.0.1:%d", port), Dir: dir, cmd: exec.Command(program[0], line...),
		done: make(chan struct{})}
	return s, s.startProcess()
}

// startProcess starts the process and waits until the server is ready.
func (s *Redis) startProcess() error {
	if err := s.cmd.Start(); err != nil {
		return err
	}
	go func(cmd *exec.Cmd, done chan struct{}) {
		_ = cmd.Wait()
		close(done)
	}(s.cmd, s.done)
	if s.waitReady() {
		return nil
	}
	s.Stop()
	text, _ := os.ReadFile(filepath.Join(s.Dir, "redis.log"))
	return fmt.Errorf("redis-server did not start; its log: %s", strings.TrimSpace(string(text)))
}

// freePort returns a free port. The port of its cluster bus, 10,000 higher, is
// free too.
func freePort() (int, error) {
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		_ = l.Close()
		port := l.Addr().(*net.TCPAddr).Port
		if port > 55535 {
			continue
		}
		if bus, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port+10000)); err == nil {
			_ = bus.Close()
			return port, nil
		}
	}
}

// waitReady waits until the server replies to a PING, even with an error.
func (s *Redis) waitReady() bool {
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
	reply, err := bufio.NewReader(conn).ReadString('\n')
	begins := func(answer string) bool { return strings.HasPrefix(reply, answer) }
	return err == nil && slices.ContainsFunc([]string{"+PONG", "-NO", "-LOADING"}, begins)
}

// FreePort returns a port that nothing listens on.
func FreePort(t testing.TB) string {
	t.Helper()
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(port)
}

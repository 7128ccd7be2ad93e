package main

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	_ "modernc.org/sqlite"

	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// asRation in the environment makes the test binary a ration process.
const asRation = "RATION_TEST_AS_RATION"

func TestMain(m *testing.M) {
	if os.Getenv(asSpender) != "" {
		spenderMain()
	}
	if os.Getenv(asRation) != "" {
		rationMain()
	}
	setUmask()
	testscript.Main(besideHome{m}, map[string]func(){"ration": rationMain, "fetch": fetchMain})
}

// besideHome runs the tests with a replica and a state folder outside the
// developer's home.
type besideHome struct{ *testing.M }

// Run implements testscript.TestingM.
func (m besideHome) Run() int {
	dir, err := os.MkdirTemp("", "replica")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	os.Setenv("RATION_JOURNAL", dir)
	os.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	return m.M.Run()
}

// shiftEnv in the environment of a ration process is by how much its clock is
// ahead of the system's. Without it, the system's clock is used.
const shiftEnv = "RATION_TEST_SHIFT"

// claimTimeEnv in the environment of a ration process is how long it claims
// a pass.
const claimTimeEnv = "RATION_TEST_CLAIM_TIME"

// stdinEnv in the environment of a script names the file that its command lines
// read as standard input.
const stdinEnv = "RATION_TEST_STDIN"

// midday is when tests begin that charge calendar days: far from the boundaries
// of a day, in Los Angeles and in UTC, and from those of a month.
const midday = "2026-11-20T18:00:00Z"

// rationMain is main with the clock of the environment.
func rationMain() {
	a := newApp()
	if shift := os.Getenv(shiftEnv); shift != "" {
		by, err := time.ParseDuration(shift)
		if err != nil {
			panic(err)
		}
		a.now, a.fixed = func() time.Time { return time.Now().Add(by) }, true
	}
	if hold := os.Getenv(claimTimeEnv); hold != "" {
		var err error
		if a.claimTime, err = time.ParseDuration(hold); err != nil {
			panic(err)
		}
	}
	os.Exit(a.main(os.Args[1:]))
}

// shiftTo returns the value of shiftEnv for clocks that show a time now.
func shiftTo(t interface{ Fatal(...any) }, text string) time.Duration {
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return time.Until(at)
}

// TestScripts runs testdata/script: the command line as its users meet it,
// against the local YouTube.
func TestScripts(t *testing.T) {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		// absolute, for the working directory changes
		Dir:                 filepath.Join(root, "cmd", "ration", "testdata", "script"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("SHIPPED", root)
			env.Setenv("HOME", filepath.Join(env.WorkDir, "home"))
			env.Values[upstreamKey{}] = new(*youtubetest.Server)
			env.Values[testKey{}] = env.T()
			env.Setenv("YOUTUBE_API_KEY", "AIzaSECRET-of-the-test")
			env.Setenv(shiftEnv, shiftTo(t, midday).String())
			return nil
		},
		Condition: func(name string) (bool, error) {
			if name != "redis" {
				return false, fmt.Errorf("unknown condition %s", name)
			}
			_, err := exec.LookPath("redis-server")
			return err == nil || os.Getenv("RATION_REQUIRE_REDIS") != "", nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"clock":    setClock,
			"exits":    new(workingDirectory).exits,
			"upstream": startUpstream,
			"fail":     failUpstream,
			"total":    upstreamTotal,
			"redis":    startRedis,
			"postgres": startPostgres,
			"lock":     lockLedger,
		},
	})
}

// exits runs a command that must end with an exit code: exits 75 ration run.
// Ration runs inside the test unless it waits, any other program as a process.
func (d *workingDirectory) exits(ts *testscript.TestScript, _ bool, args []string) {
	var got int
	var texts []string
	if args[1] == "ration" && !waits(ts, args) {
		got, texts = d.ration(ts, args[2:])
	} else {
		err := ts.Exec(args[1], args[2:]...)
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			got = exit.ExitCode()
		} else if err != nil {
			ts.Fatalf("%v", err)
		}
		texts = []string{ts.ReadFile("stdout"), ts.ReadFile("stderr")}
	}
	if strconv.Itoa(got) != args[0] {
		ts.Fatalf("exit code %d; want %s", got, args[0])
	}
	for i, name := range []string{"stdout", "stderr"} {
		if strings.Contains(texts[i], "AIzaSECRET") {
			ts.Fatalf("the API key is on %s: %s", name, texts[i])
		}
	}
}

// waits reports whether a command line waits in real time, for a ledger that is
// down or locked, or in the demo. Inside the test it would keep other scripts
// waiting for the working directory.
func waits(ts *testscript.TestScript, args []string) bool {
	return args[0] == "69" || ts.Getenv(lockedEnv) != "" || slices.Contains(args, "demo") ||
		strings.HasSuffix(ts.Getenv("RATION_LEDGER"), "127.0.0.1:1/0")
}

// ration runs a command line of a script, and returns its exit code and what it
// printed on stdout and stderr.
func (d *workingDirectory) ration(ts *testscript.TestScript, args []string) (code int, texts []string) {
	var stdout, stderr bytes.Buffer
	c := &commandLine{stdout: io.MultiWriter(ts.Stdout(), &stdout), stderr: io.MultiWriter(ts.Stderr(), &stderr),
		getenv: ts.Getenv}
	if file := ts.Getenv(stdinEnv); file != "" {
		c.stdin = strings.NewReader(ts.ReadFile(file))
	}
	if shift := ts.Getenv(shiftEnv); shift != "" {
		var err error
		c.shift, err = time.ParseDuration(shift)
		ts.Check(err)
	}
	code, err := d.in(ts.MkAbs("."), func() int { return c.run(args...) })
	ts.Check(err)
	return code, []string{stdout.String(), stderr.String()}
}

// setClock sets the clock of the ration processes and local YouTubes that are
// started from now on, which runs on from there: clock 2026-11-20T23:59:00Z, or
// clock system.
func setClock(ts *testscript.TestScript, _ bool, args []string) {
	if args[0] == "system" {
		ts.Setenv(shiftEnv, "")
		return
	}
	ts.Setenv(shiftEnv, shiftTo(fatal{ts}, args[0]).String())
}

// fatal gives a script the method of a test.
type fatal struct{ *testscript.TestScript }

func (f fatal) Fatal(args ...any) { f.Fatalf("%s", fmt.Sprint(args...)) }

type upstreamKey struct{}

func server(ts *testscript.TestScript) **youtubetest.Server {
	return ts.Value(upstreamKey{}).(**youtubetest.Server)
}

// startUpstream starts a local YouTube and names it in
// RATION_ENDPOINT: upstream [2026] [units] [search=calls]. Its clock
// is that of ration processes.
func startUpstream(ts *testscript.TestScript, _ bool, args []string) {
	shift, _ := time.ParseDuration(ts.Getenv(shiftEnv))
	options := &youtubetest.Options{Now: func() time.Time { return time.Now().Add(shift) }}
	for _, arg := range args {
		if arg == "2026" {
			options.Model = youtubetest.Since2026
			continue
		}
		number, search := strings.CutPrefix(arg, "search=")
		limit, err := strconv.ParseInt(number, 10, 64)
		ts.Check(err)
		if search {
			options.SearchLimit = limit
		} else {
			options.Limit = limit
		}
	}
	s := youtubetest.New(options)
	web := httptest.NewServer(s)
	ts.Defer(web.Close)
	ts.Setenv("RATION_ENDPOINT", web.URL)
	ts.Setenv("UPSTREAM", web.URL)
	*server(ts) = s
}

// failUpstream adds a fault: fail method=videos.list status=500 times=3
func failUpstream(ts *testscript.TestScript, _ bool, args []string) {
	var f youtubetest.Fault
	for _, arg := range args {
		name, value, _ := strings.Cut(arg, "=")
		number, _ := strconv.Atoi(value)
		switch name {
		case "method":
			f.Method = value
		case "region":
			f.Region = value
		case "status":
			f.Status = number
		case "reason":
			f.Reason = value
		case "body":
			f.Body = value
		case "times":
			f.Times = number
		case "skip":
			f.Skip = number
		case "delivery":
			f.Delivery = map[string]youtubetest.Delivery{"dropped": youtubetest.Dropped, "short": youtubetest.CutShort,
				"halved": youtubetest.Halved}[value]
		default:
			ts.Fatalf("unknown fault %s", arg)
		}
	}
	(*server(ts)).Fail(f)
}

// upstreamTotal checks what the upstream counted: total 32
func upstreamTotal(ts *testscript.TestScript, _ bool, args []string) {
	if got := fmt.Sprint((*server(ts)).Total()); got != args[0] {
		ts.Fatalf("the upstream counted %s units; want %s", got, args[0])
	}
}

// startRedis starts a redis-server on a free port and names it in
// RATION_LEDGER: redis [arguments]
func startRedis(ts *testscript.TestScript, _ bool, args []string) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		ts.Fatalf("%v: make deps installs it", err)
	}
	port := freePort(ts)
	cmd := exec.Command(program,
		append([]string{"--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", ts.MkAbs(".")}, args...)...)
	ts.Check(cmd.Start())
	ts.Defer(func() { cmd.Process.Kill(); cmd.Wait() })
	for end := time.Now().Add(10 * time.Second); ; {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			conn.Close()
			break
		}
		if time.Now().After(end) {
			ts.Fatalf("redis-server did not start within ten seconds: %v", err)
		}
	}
	ts.Setenv("RATION_LEDGER", "redis://127.0.0.1:"+port+"/0")
}

// testKey is that of the script's test among its values.
type testKey struct{}

// startPostgres starts a PostgreSQL server and names it in POSTGRES.
func startPostgres(ts *testscript.TestScript, _ bool, _ []string) {
	ts.Setenv("POSTGRES", servers.StartPostgres(ts.Value(testKey{}).(testing.TB)).URL())
}

// lockedEnv in a script's environment says that its ledger is locked.
const lockedEnv = "RATION_TEST_LOCKED"

// lockLedger locks a ledger's file as another program does, until the script
// ends: lock ration.db
func lockLedger(ts *testscript.TestScript, _ bool, args []string) {
	db, err := sql.Open("sqlite", ts.MkAbs(args[0]))
	ts.Check(err)
	db.SetMaxOpenConns(1)
	ts.Defer(func() { db.Close() })
	for _, statement := range []string{"PRAGMA locking_mode = EXCLUSIVE", "BEGIN EXCLUSIVE"} {
		_, err := db.Exec(statement)
		ts.Check(err)
	}
	ts.Setenv(lockedEnv, args[0])
}

func freePort(ts *testscript.TestScript) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	ts.Check(err)
	defer listener.Close()
	_, port, err := net.SplitHostPort(listener.Addr().String())
	ts.Check(err)
	return port
}

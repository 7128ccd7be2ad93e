package client_test

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

const file = `version: 1
upstream: u
account: a
hosts: [api.example.com]
routes: {"/{method}": "{method}"}
costs: {get: 1, export: 60}
budgets: [{name: hour, limit: 100, window: 1h}]
when_ledger_down: {export: refuse, default: {allow: 2}}
`

// stand is a folder with a costs.yaml, and an upstream that answers 204.
type stand struct {
	*testing.T
	dir     string
	options client.Options
}

func newStand(t *testing.T, more string) *stand {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	t.Cleanup(srv.Close)
	s := &stand{T: t, dir: t.TempDir()}
	s.options = client.Options{State: filepath.Join(s.dir, "state"), Base: dialing(srv),
		Getenv: func(string) string { return "" },
		Report: func(_ quota.Call, err error) { t.Errorf("reported: %v", err) }}
	if err := os.WriteFile(filepath.Join(s.dir, "costs.yaml"), []byte(file+more), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *stand) open() *client.Client {
	s.Helper()
	c, err := client.Open(filepath.Join(s.dir, "costs.yaml"), &s.options)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { c.Close() })
	return c
}

// get calls a method of the upstream.
func get(c *client.Client, method string) error {
	resp, err := (&http.Client{Transport: c}).Get("https://api.example.com/" + method)
	if err == nil {
		resp.Body.Close()
	}
	return err
}

// TestTheEnvironmentsLedgerPrecedesTheFiles checks which of the options, the
// environment and the file names the ledger.
func TestTheEnvironmentsLedgerPrecedesTheFiles(t *testing.T) {
	s := newStand(t, "ledger: sqlite:named.db\n")
	table, err := costs.Load(filepath.Join(s.dir, "costs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	variable := ""
	s.options.Getenv = func(name string) string {
		if name == "RATION_LEDGER" {
			return variable
		}
		return ""
	}
	if name := client.LedgerName(table, &s.options); name != "sqlite:"+filepath.Join(s.dir, "named.db") {
		t.Errorf("costs.yaml names %s", name)
	}
	variable = "redis://example.com:6379/3"
	if name := client.LedgerName(table, &s.options); name != variable {
		t.Errorf("the environment names %s", name)
	}
	variable = "redis:/example.com"
	if err := client.CheckLedger(table, &s.options); err == nil ||
		!strings.HasPrefix(err.Error(), "RATION_LEDGER: ledger ") {
		t.Errorf("a malformed variable: %v", err)
	}
	s.options.Ledger = "sqlite:/srv/own.db"
	if name := client.LedgerName(table, &s.options); name != s.options.Ledger {
		t.Errorf("the program names %s", name)
	}
}

// TestEmptyLedgerReported opens another, empty ledger with the same
// state folder.
func TestEmptyLedgerReported(t *testing.T) {
	s := newStand(t, "")
	if err := get(s.open(), "get"); err != nil {
		t.Fatal(err)
	}
	var reported []error
	s.options.Report = func(_ quota.Call, err error) { reported = append(reported, err) }
	s.options.Ledger = "sqlite:" + filepath.Join(s.dir, "other.db")
	s.open()
	if len(reported) != 1 {
		t.Fatalf("%v; want one report", reported)
	}
	empty, ok := errors.AsType[*client.EmptyLedgerError](reported[0])
	if !ok || empty.Ledger != s.options.Ledger || !strings.HasSuffix(empty.Before, "ration.db") {
		t.Errorf("%v", reported[0])
	}
	if s.open(); len(reported) != 1 {
		t.Errorf("%v; want it reported once", reported)
	}
}

// TestLedgerOfAMoveIsNotEmpty: a host that names the new ledger before it holds
// what the old one held is not told to name the old one again.
func TestLedgerOfAMoveIsNotEmpty(t *testing.T) {
	s := newStand(t, "")
	if err := get(s.open(), "get"); err != nil {
		t.Fatal(err)
	}
	s.options.Ledger = "sqlite:" + filepath.Join(s.dir, "other.db")
	ledger, err := sqliteledger.Open(filepath.Join(s.dir, "other.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	move := quota.MovedError{Account: "a", Ledger: "sqlite:ration.db", Arriving: true}
	if err := errors.Join(testledger.CloseAccount(t.Context(), ledger, move), ledger.Close()); err != nil {
		t.Fatal(err)
	}
	s.options.Report = func(_ quota.Call, err error) { t.Errorf("reported: %v", err) }
	s.open()
}

// TestProcessesAgreeOnTheBeginningOfAnOutage: the processes of an outage agree
// on its beginning, although none has made the state folder before. One that
// only looks makes none.
func TestProcessesAgreeOnTheBeginningOfAnOutage(t *testing.T) {
	s := newStand(t, "")
	table, err := costs.Load(filepath.Join(s.dir, "costs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	s.options.Ledger, s.options.State, s.options.Replica = "redis://127.0.0.1:1/0",
		filepath.Join(s.dir, "new", "state"), filepath.Join(s.dir, "journal")
	s.options.Report = func(quota.Call, error) {}
	for _, looks := range []bool{true, false} {
		s.options.MustExist = looks
		c, err := client.New(table, &s.options)
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Guard().Balances(t.Context())
		c.Close()
		if marked := client.LastOutage(s.options.State) != nil; !errors.Is(err, quota.ErrLedgerDown) ||
			marked == looks {
			t.Errorf("%v; marked: %t, by one that only looks: %t", err, marked, looks)
		}
	}
}

// TestAnOutageIsLoggedOnce: a program that has no Report read the same line of
// the call that found the ledger down and of the first one without it.
func TestAnOutageIsLoggedOnce(t *testing.T) {
	var logged bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&logged, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	s := newStand(t, "ledger: redis://127.0.0.1:1/0\n")
	s.options.Report = nil
	c := s.open()
	defer c.Close()
	for range 2 {
		if err := get(c, "get"); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(logged.String(), "has been down since"); n != 1 {
		t.Errorf("an outage is logged %d times; want once:\n%s", n, &logged)
	}
}

// TestTheOutageOfARedisIsReported: the outage of a Redis, whose password comes
// from a file, is reported to the program.
func TestTheOutageOfARedisIsReported(t *testing.T) {
	s := newStand(t, "")
	s.options.Ledger = "redis://127.0.0.1:1/0"
	secret := filepath.Join(s.dir, "password")
	if err := os.WriteFile(secret, []byte("s3cret-word\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.options.Getenv = func(name string) string {
		return map[string]string{"RATION_REDIS_PASSWORD_FILE": secret}[name]
	}
	var mu sync.Mutex
	var outages []client.OutageError
	var concealed string
	s.options.Conceal = func(secret string) { concealed = secret }
	s.options.Report = func(_ quota.Call, err error) {
		outage, ok := errors.AsType[*client.OutageError](err)
		if !ok {
			t.Errorf("reported: %v", err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		outages = append(outages, *outage)
	}
	c := s.open()
	if concealed != "s3cret-word" {
		t.Errorf("concealed %q", concealed)
	}
	for call, want := range []error{nil, nil, quota.ErrLedgerDown} {
		if err := get(c, "get"); !errors.Is(err, want) {
			t.Fatalf("call %d: %v; want %v", call, err, want)
		}
	}
	if err := get(c, "export"); !errors.Is(err, quota.ErrLedgerDown) {
		t.Fatalf("%v; want it refused", err)
	}
	mu.Lock()
	defer mu.Unlock()
	if len(outages) != 2 || !outages[0].Down || outages[0].Units != 0 || outages[1].Units != 1 {
		t.Fatalf("%+v; want its beginning and its first call", outages)
	}
	if units, err := c.Unrecorded(); err != nil || units != 2 {
		t.Errorf("%d units, %v; want 2", units, err)
	}
	if o := client.LastOutage(c.State()); o == nil || o.Ledger != c.LedgerName() {
		t.Errorf("another process finds %+v", o)
	}
}

// TestNothingIsSentWithoutStateFolder: calls that cannot be counted are
// not sent.
func TestNothingIsSentWithoutStateFolder(t *testing.T) {
	s := newStand(t, "")
	s.options.State, s.options.Ledger = "", "redis://127.0.0.1:1/0"
	s.options.Report = func(quota.Call, error) {}
	if err := get(s.open(), "get"); !errors.Is(err, quota.ErrLedgerDown) {
		t.Errorf("%v; want ErrLedgerDown", err)
	}
	s.options.Ledger = ""
	_, err := client.Open(filepath.Join(s.dir, "costs.yaml"), &s.options)
	if mistake, ok := errors.AsType[*client.ConfigError](err); !ok ||
		!strings.Contains(mistake.Error(), "no state folder") {
		t.Errorf("%v; want a ConfigError about the state folder", err)
	}
}

// TestManyCallersMayShareAndCloseAClient shares a Client between goroutines,
// and closes it while they are refused.
func TestManyCallersMayShareAndCloseAClient(t *testing.T) {
	s := newStand(t, "")
	c := s.open()
	var wg sync.WaitGroup
	var mu sync.Mutex
	granted := 0
	for range 8 {
		wg.Go(func() {
			for range 20 {
				err := get(c, "get")
				mu.Lock()
				if err == nil {
					granted++
				} else if !errors.Is(err, quota.ErrRefused) {
					t.Error(err)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if granted != 100 {
		t.Errorf("%d calls were granted; want 100", granted)
	}
	for range 4 {
		wg.Go(func() { _ = get(c, "get") })
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	wg.Wait()
	if err := get(c, "get"); err == nil {
		t.Error("a closed Client sends")
	}
}

// TestLedgerOfATestHasNoReplica: ledgers that tests open themselves have no
// copy in the user's folder, from which each would be restored.
func TestLedgerOfATestHasNoReplica(t *testing.T) {
	s := newStand(t, "")
	home := t.TempDir()
	s.options.State, s.options.Getenv = "", func(name string) string { return map[string]string{"HOME": home}[name] }
	for range 2 {
		s.options.Opened = memledger.Open(nil)
		c := s.open()
		call, err := c.Table().Call("", "get")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Guard().Spend(t.Context(), call); err != nil {
			t.Fatal(err)
		}
		if balances, err := c.Guard().Balances(t.Context()); err != nil || balances[0].Used != 1 {
			t.Errorf("%+v, %v; want 1 used", balances, err)
		}
	}
	if files, err := os.ReadDir(home); err != nil || len(files) > 0 {
		t.Errorf("in the home folder: %v, %v", files, err)
	}
}

// TestAMissingFileSaysWhatToDo: Open of a file that is not there.
func TestAMissingFileSaysWhatToDo(t *testing.T) {
	_, err := client.Open(filepath.Join(t.TempDir(), "costs.yaml"), nil)
	if _, ok := errors.AsType[*client.ConfigError](err); !ok || !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "ration init") {
		t.Errorf("%v; want a ConfigError that says what to do", err)
	}
}

// TestOpenWithoutAPathSaysWhatToDo: the path may come from an empty variable.
func TestOpenWithoutAPathSaysWhatToDo(t *testing.T) {
	_, err := client.Open("", nil)
	if _, ok := errors.AsType[*client.ConfigError](err); !ok ||
		!strings.Contains(err.Error(), "no path of a costs.yaml; give one") {
		t.Errorf("%v; want a ConfigError that says what to give", err)
	}
}

// TestAZeroClientReturnsErrors: a Client that was not opened returns an error.
func TestAZeroClientReturnsErrors(t *testing.T) {
	c := &client.Client{}
	web := &http.Client{Transport: c}
	_, sent := web.Post("https://api.example.com/get", "text/plain", strings.NewReader("x"))
	web.CloseIdleConnections()
	_, spent := c.SpendTogether(t.Context(), quota.Call{Account: "a", Method: "get", Units: 1}, 1, 0)
	_, answered := c.Answered(t.Context(), quota.Call{}, nil, &http.Response{})
	for i, err := range []error{sent, spent, answered, c.Close()} {
		if err == nil || !strings.Contains(err.Error(), "client.Open or client.New") {
			t.Errorf("method %d: %v; want what makes a Client", i, err)
		}
	}
}

// TestTheErrorOfAPasswordFileSaysWhatToDo: the error of a password file says
// one thing to do.
func TestTheErrorOfAPasswordFileSaysWhatToDo(t *testing.T) {
	s := newStand(t, "")
	s.options.Ledger = "redis://127.0.0.1:1/0"
	for file, want := range map[string]string{s.dir: "it is not a regular file; name a regular file",
		filepath.Join(s.dir, "none"): "; name a file that holds the password"} {
		s.options.Getenv = func(name string) string {
			return map[string]string{"RATION_REDIS_PASSWORD_FILE": file}[name]
		}
		_, err := client.Open(filepath.Join(s.dir, "costs.yaml"), &s.options)
		if _, ok := errors.AsType[*client.ConfigError](err); !ok || !strings.HasSuffix(err.Error(), want) {
			t.Errorf("%s: %v; want %q at the end", file, err, want)
		}
	}
}

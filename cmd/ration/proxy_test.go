//go:build unix

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// url returns where a serve or proxy listens.
func (d *served) url() string {
	d.t.Helper()
	d.says(`(?m)^ration: listening on \S+ \(version \S+\)$`)
	return regexp.MustCompile(`listening on (\S+)`).FindStringSubmatch(d.text())[1]
}

// get returns the status and the body of an answer.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body)
}

const video = "/to/youtube.googleapis.com/youtube/v3/videos?part=id&id=a&key=k"

// TestProxyEndsWithItsRequests: the request in flight is answered, the prices
// are read again on SIGHUP, an invalid file and another ledger are not.
func TestProxyEndsWithItsRequests(t *testing.T) {
	t.Parallel()
	s := newStand(t, &youtubetest.Options{Latency: 200 * time.Millisecond}, plentyOfUnits, "[trending]", "US")
	os.Remove(filepath.Join(s.dir, "regions.yaml"))
	d := s.start(t, []string{"YOUTUBE_API_KEY="}, "proxy", "--listen", "127.0.0.1:0")
	base := d.url()
	if status, body := get(t, base+video); status != 200 || s.used(t) != 1 {
		t.Fatalf("%d %s, %d used", status, body, s.used(t))
	}
	if status, body := get(t, base+"/v1/plan"); status != 404 {
		t.Errorf("a plan without regions.yaml: %d %s", status, body)
	}
	costs := mustRead(t, filepath.Join(s.dir, "costs.yaml"))
	for _, change := range []struct{ old, new, says string }{
		{"videos.list: 1", "videos.list: 2", `what="cost of videos.list: units 1 -> 2"`},
		{"videos.list: 1", "videos.list: many", `level=WARN msg="the old configuration stays in force"`},
		{"sqlite:ration.db", "sqlite:other.db", `the files name another ledger`},
	} {
		s.write(t, "costs.yaml", strings.Replace(costs, change.old, change.new, 1))
		d.Process.Signal(syscall.SIGHUP)
		d.says(change.says)
	}
	s.write(t, "costs.yaml", costs)
	began := s.upstream.Total()
	answered := make(chan int, 1)
	go func() {
		resp, err := http.Get(base + video)
		if err != nil {
			answered <- 0
			return
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		answered <- resp.StatusCode
	}()
	for s.upstream.Total() == began { // it is counted before it is answered
		runtime.Gosched()
	}
	d.ends(syscall.SIGTERM)
	if status := <-answered; status != 200 || s.used(t) != 3 {
		t.Errorf("the request in flight: %d, %d used; want 200, and 1 + 2", status, s.used(t))
	}
}

// TestProxyStartsWithoutItsLedger: its documents say that the ledger is down.
func TestProxyStartsWithoutItsLedger(t *testing.T) {
	if testing.Short() {
		t.Skip("waits two seconds for a ledger that is down")
	}
	t.Parallel()
	s := newStand(t, nil, plentyOfUnits, "[trending]", "US")
	d := s.start(t, []string{"RATION_LEDGER=redis://127.0.0.1:1/0"}, "proxy", "--listen", "127.0.0.1:0")
	if status, body := get(t, d.url()+"/v1/status"); status != 503 ||
		!strings.Contains(body, `"ledger_state":{"down":true`) {
		t.Errorf("status: %d %s", status, body)
	}
	d.ends(syscall.SIGINT)
}

// TestDaysAreShownWithoutTheLedger: of a ledger that is down, the gateway and
// the command show the days that the catalogue keeps.
func TestDaysAreShownWithoutTheLedger(t *testing.T) {
	if testing.Short() {
		t.Skip("waits two seconds for a ledger that is down")
	}
	t.Parallel()
	redis := servers.StartRedis(t)
	env := []string{"RATION_LEDGER=" + redis.URL()}
	s := newStand(t, nil, plentyOfUnits, "[trending]", "US")
	d := s.start(t, env, "proxy", "--listen", "127.0.0.1:0")
	days := d.url() + "/v1/log?by=day"
	get(t, d.url()+video)
	status, want := get(t, days)
	if status != 200 || want == "" {
		t.Fatalf("%d %q", status, want)
	}
	redis.Stop()
	if status, body := get(t, days); status != 503 || body != want {
		t.Errorf("%d %q; want 503 and %q", status, body, want)
	}
	if code, printed, _ := s.run(t, env, "log", "--by", "day", "--json"); code != exitLedger || printed != want {
		t.Errorf("ration log: exit code %d, %q; want %q", code, printed, want)
	}
	d.ends(syscall.SIGTERM)
}

// TestAnUnsolicitedAnswerIsNotPrinted: net/http printed the first bytes of an
// answer that no request asked for, with what was secret in them.
func TestAnUnsolicitedAnswerIsNotPrinted(t *testing.T) {
	t.Parallel()
	upstream, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer upstream.Close()
	ended := make(chan error, 1)
	go func() {
		conn, err := upstream.Accept()
		if err != nil {
			ended <- err
			return
		}
		defer conn.Close()
		if _, err := http.ReadRequest(bufio.NewReader(conn)); err != nil {
			ended <- err
			return
		}
		const answer = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nSet-Cookie: s=SECRET\r\n\r\n{}"
		_, err = io.WriteString(conn, answer+answer)
		_, unread := io.Copy(io.Discard, conn) // until the gateway closes it
		ended <- errors.Join(err, unread)
	}()
	s := newStand(t, nil, plentyOfUnits, "[trending]", "US")
	d := s.start(t, []string{"RATION_ENDPOINT=http://" + upstream.Addr().String()}, "proxy", "--listen", "127.0.0.1:0")
	if status, body := get(t, d.url()+video); status != 200 || body != "{}" {
		t.Errorf("%d %s", status, body)
	}
	if err := <-ended; err != nil {
		t.Log(err) // it may be reset
	}
	if strings.Contains(d.text(), "SECRET") || strings.Contains(d.text(), "Unsolicited") {
		t.Errorf("it printed %s", d.text())
	}
	d.ends(syscall.SIGTERM)
}

// TestASecondServeDoesWithoutTheGateway: the second does without the gateway
// that it was not asked for, and fails if it was.
func TestASecondServeDoesWithoutTheGateway(t *testing.T) {
	t.Parallel()
	s := newStand(t, nil, plentyOfUnits, "[trending]", "US")
	// Other tests have the address for a moment. If another program has it for
	// longer, that does as well.
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if taken, err := net.Listen("tcp", setup.DefaultAddress); err == nil {
			defer taken.Close()
			break
		}
	}
	own, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	d := s.start(t, nil, "serve", "--jitter", "0s")
	d.says(`level=WARN msg="no gateway" reason="listen on 127.0.0.1:8377: `)
	d.says(`msg=pass region=US .* outcome=complete`)
	d.ends(syscall.SIGTERM)
	if code, _, text := s.run(t, nil, "serve", "--listen", own.Addr().String()); code != exitConfig ||
		!strings.Contains(text, "address already in use; give another address with --listen") {
		t.Errorf("exit code %d: %s", code, text)
	}
}

// TestDocumentsAreWhatTheCommandsPrint compares each document with the command.
func TestDocumentsAreWhatTheCommandsPrint(t *testing.T) {
	s := newStand(t, nil, plentyOfUnits, "[trending]", "US", "GB")
	d := s.serve(t, nil)
	base := d.url()
	d.says(`msg=pass region=US .* outcome=complete`)
	d.says(`msg=pass region=GB .* outcome=complete`)
	varying := regexp.MustCompile(`"(at|from|to|next_free_at|since|until|in_s|first|last|first_at)":("[^"]*"|` +
		`[0-9]+)|"unrecorded_units":(0|null)|20[0-9]{2}-[0-9-]+T[0-9:.]+Z`)
	for path, args := range map[string][]string{
		"/v1/status":                       {"status"},
		"/v1/log?last=3":                   {"log", "--last", "3"},
		"/v1/log?by=region&top=1":          {"log", "--by", "region", "--top", "1"},
		"/v1/log?region=US&since=1h":       {"log", "--region", "US", "--since", "1h"},
		"/v1/log?region=none":              {"log", "--region", "none"},
		"/v1/plan?days=3&fresh=":           {"plan", "--days", "3", "--fresh"},
		"/v1/plan?days=400&jitter=0":       nil,
		"/search?q=the&limit=2":            {"search", "the", "--limit", "2"},
		"/search?q=the&max-age=7d":         {"search", "the", "--max-age", "7d"},
		"/search":                          nil,
		"/search?q=":                       nil,
		"/v1/status?verbose=1":             nil,
		"/v1/log?lst=3":                    nil,
		"/v1/log?last=3&last=4":            nil,
		"/v1/log?last=many":                nil,
		"/v1/log?since=someday":            nil,
		"/v1/log?account=nobody":           nil,
		"/v1/log?csv=true":                 nil,
		"/v1/plan?fresh=perhaps":           nil,
		"/v1/plan?at=2026-11-20T00:00:00Z": nil,
	} {
		status, body := get(t, base+path)
		if args == nil {
			var problem struct{ Detail string }
			if json.Unmarshal([]byte(body), &problem); status != 400 || problem.Detail == "" ||
				strings.Contains(problem.Detail, "--") {
				t.Errorf("%s: %d %s; want 400", path, status, body)
			}
			continue
		}
		_, printed, _ := s.run(t, nil, append(args, "--json")...)
		if got, want := varying.ReplaceAllString(body, "…"),
			varying.ReplaceAllString(printed, "…"); status != 200 || got != want {
			t.Errorf("%s: %d\n%s\nration %s prints\n%s", path, status, got, strings.Join(args, " "), want)
		}
	}
	d.ends(syscall.SIGTERM)
}

// TestExecPassesSignalsOn: the program gets them, and its exit code counts.
func TestExecPassesSignalsOn(t *testing.T) {
	s := newStand(t, nil, plentyOfUnits, "[trending]", "US")
	for _, test := range []struct {
		script string
		signal syscall.Signal
		code   int
	}{
		{"trap 'echo told >&2; exit 3' TERM; echo ready >&2; while :; do sleep 0.01; done", syscall.SIGTERM, 3},
		{"trap 'echo told >&2; exit 0' INT; echo ready >&2; while :; do sleep 0.01; done", syscall.SIGINT, 0},
		{"echo ready >&2; exec sleep 60", syscall.SIGTERM, 143},
		{"echo ready >&2; kill -KILL $$", 0, 137},
	} {
		d := s.start(t, nil, "exec", "--", "sh", "-c", test.script)
		d.says("ready")
		if test.signal != 0 {
			d.Process.Signal(test.signal)
		}
		<-d.done
		if code := exitCode(d.Wait()); code != test.code || strings.Contains(d.text(), "ration:") {
			t.Errorf("%s: exit code %d, %s; want %d", test.script, code, d.text(), test.code)
		}
	}
}

// TestExecGatewayIsItsPrograms: another program of the host cannot spend, and
// the token is on no stream.
func TestExecGatewayIsItsPrograms(t *testing.T) {
	s := newStand(t, nil, plentyOfUnits, "[trending]", "US")
	cmd := s.command("exec", "--", "sh", "-c", `echo "$RATION_URL"; read line`)
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	base := make([]byte, 100)
	n, err := stdout.Read(base)
	if err != nil {
		t.Fatal(err)
	}
	if status, body := get(t, strings.TrimSpace(string(base[:n]))+video); status != 401 || s.upstream.Total() != 0 {
		t.Errorf("without the token: %d %s", status, body)
	}
	stdin.Close()
	if code := exitCode(cmd.Wait()); code != 1 || stderr.Len() > 0 {
		t.Errorf("exit code %d, %s; want that of read at the end of a file", code, &stderr)
	}
}

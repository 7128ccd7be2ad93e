package gateway_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/internal/servers"
)

// serveVariable makes the test binary a gateway: it names the folder of the
// ledger, and the ledger after a space.
const serveVariable = "RATION_TEST_GATEWAY"

func TestMain(m *testing.M) {
	if folder, ledger, ok := strings.Cut(os.Getenv(serveVariable), " "); ok {
		if err := runGateway(folder, ledger); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// runGateway serves on a free port, which it prints, until it is told to end.
func runGateway(folder, ledger string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	parsed, err := costs.Parse("costs.yaml", []byte(crowdTable))
	if err != nil {
		return err
	}
	c, err := client.New(parsed, &client.Options{Ledger: ledger, State: folder, Replica: folder + "/replica"})
	if err != nil {
		return err
	}
	defer c.Close()
	g := gateway.New(nil)
	g.Use(c)
	listener, base, err := gateway.Listen("127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(base)
	return gateway.Serve(ctx, listener, g, time.Second)
}

// crowdTable has a budget that all spends of the tests fit.
const crowdTable = `
version: 1
upstream: items
account: my-project
hosts: [api.example.com]
routes: {"/{path...}": read}
costs: {read: 1}
budgets:
  - {name: day, limit: 1000000, window: {sliding: 24h}}
`

// process is a gateway in a process of its own.
type process struct {
	cmd *exec.Cmd
	url string
}

func start(t *testing.T, folder, ledger string) *process {
	t.Helper()
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(os.Environ(), serveVariable+"="+folder+" "+ledger)
	p.cmd.Stderr = os.Stderr
	out, err := p.cmd.StdoutPipe()
	if err == nil {
		err = p.cmd.Start()
	}
	if err == nil {
		_, err = fmt.Fscanln(out, &p.url)
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// cutter is a TCP proxy before a gateway that cuts replies off. cut is how many
// bytes of a connection's replies pass; negative for all.
type cutter struct {
	net.Listener
	target atomic.Value
	cut    atomic.Int64
	cuts   atomic.Int64
}

func newCutter(t *testing.T) *cutter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{Listener: l}
	c.cut.Store(-1)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go c.serve(conn)
		}
	}()
	return c
}

func (c *cutter) serve(conn net.Conn) {
	defer conn.Close()
	url, _ := c.target.Load().(string)
	behind, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		return
	}
	defer behind.Close()
	go io.Copy(behind, conn)
	var replies io.Reader = behind
	if cut := c.cut.Load(); cut >= 0 {
		// the reply has arrived whole at the proxy, so that the spend is made
		first := make([]byte, 64<<10)
		n, _ := behind.Read(first)
		_, _ = conn.Write(first[:min(int(cut), n)])
		c.cuts.Add(1)
		return
	}
	_, _ = io.Copy(conn, replies)
}

// ask sends a spend once. It returns nil if no whole answer came.
func ask(url, body, key string) (map[string]any, int) {
	req, err := http.NewRequest("POST", url+"/v1/spend", strings.NewReader(body))
	if err != nil {
		return nil, 0
	}
	req.Header.Set("Idempotency-Key", key)
	resp, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return nil, 0
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	var document map[string]any
	if err != nil || json.Unmarshal(text, &document) != nil {
		return nil, 0
	}
	return document, resp.StatusCode
}

// TestACutReplyIsChargedOnce: replies are cut before, within and after their
// headers, the gateway is killed and restarted in between, and clients repeat
// their requests until they are answered. The ledger holds each spend once.
func TestACutReplyIsChargedOnce(t *testing.T) {
	for name, ledger := range map[string]func(t *testing.T, folder string) string{
		"SQLite": func(_ *testing.T, folder string) string { return "sqlite:" + folder + "/ledger.db" },
		"Redis":  func(t *testing.T, _ string) string { return servers.StartRedis(t).URL() },
	} {
		t.Run(name, func(t *testing.T) {
			folder := t.TempDir()
			address := ledger(t, folder)
			p := start(t, folder, address)
			defer func() { p.kill() }()
			cut := newCutter(t)
			cut.target.Store(p.url)
			total := 0
			for i, at := range []int64{0, 1, 10, 100, 400, 600, 650, 700, 800} {
				units, calls := i+1, 1+i%3
				total += units * calls
				body := fmt.Sprintf(`{"method": "read", "units": %d, "calls": %d}`, units, calls)
				key := fmt.Sprintf("%s %d", name, i)
				cut.cut.Store(at)
				first, _ := ask("http://"+cut.Addr().String(), body, key)
				if i%3 == 1 {
					p.kill()
					p = start(t, folder, address)
					cut.target.Store(p.url)
				}
				cut.cut.Store(-1)
				for range 2 {
					again, status := ask("http://"+cut.Addr().String(), body, key)
					if status != 200 || len(again["grants"].([]any)) != calls || first != nil &&
						fmt.Sprint(first["grants"]) != fmt.Sprint(again["grants"]) {
						t.Fatalf("cut at %d: %d %v after %v", at, status, again, first)
					}
					first = again
				}
			}
			if cut.cuts.Load() != 9 {
				t.Errorf("%d replies were cut; want 9", cut.cuts.Load())
			}
			checkUsed(t, folder, address, total)
		})
	}
}

// checkUsed checks what the budget of a ledger holds.
func checkUsed(t *testing.T, folder, address string, want int) {
	t.Helper()
	parsed, err := costs.Parse("costs.yaml", []byte(crowdTable))
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.New(parsed, &client.Options{Ledger: address, State: folder, Replica: folder + "/replica"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if got := used(t, c); got != want {
		t.Errorf("%d units are used; want %d", got, want)
	}
}

// TestACrowdWithOneKeyIsChargedOnce: of clients that ask at the same time with
// one key, through two gateways, all get the same grant.
func TestACrowdWithOneKeyIsChargedOnce(t *testing.T) {
	folder := t.TempDir()
	var urls []string
	for range 2 {
		urls = append(urls, newServer(t, nil, newClient(t, crowdTable, folder, nil)).url)
	}
	memory := newServer(t, nil, newMemoryClient(t, crowdTable, ""))
	for _, through := range [][]string{urls, {memory.url}} {
		var wait sync.WaitGroup
		var grants sync.Map
		for i := range 32 {
			wait.Go(func() {
				answer, status := ask(through[i%len(through)], `{"method": "read", "units": 7}`, "one key")
				if status != 200 {
					t.Errorf("%d %v", status, answer)
				}
				grants.Store(answer["grant"], true)
			})
		}
		wait.Wait()
		distinct := 0
		grants.Range(func(any, any) bool { distinct++; return true })
		if distinct != 1 {
			t.Errorf("%d grants for one key", distinct)
		}
	}
	checkUsed(t, folder, "sqlite:"+folder+"/ledger.db", 7)
}

// TestARefusedKeyIsChargedWhenItFits: a key whose call was refused, or
// refunded, is charged when it fits, and not granted for another call.
func TestARefusedKeyIsChargedWhenItFits(t *testing.T) {
	c := newClient(t, table, t.TempDir(), nil)
	s := newServer(t, nil, c)
	key := []string{"Idempotency-Key", "the import"}
	first := s.do("POST", "/v1/spend", `{"method": "items.insert", "calls": 2}`)
	for range 2 {
		if a := s.do("POST", "/v1/spend", `{"method": "items.insert", "calls": 2}`, key...); a.StatusCode != 429 ||
			used(t, c) != 80 {
			t.Fatalf("%s %s, %d used", a.Status, a.text, used(t, c))
		}
	}
	for _, grant := range first.json["grants"].([]any) {
		s.do("POST", "/v1/grants/"+grant.(string)+"/refund", "{}")
	}
	granted := s.do("POST", "/v1/spend", `{"method": "items.insert", "calls": 2}`, key...)
	for range 2 {
		if a := s.do("POST", "/v1/spend", `{"method": "items.insert", "calls": 2}`, key...); a.StatusCode != 200 ||
			used(t, c) != 80 || fmt.Sprint(a.json["grants"]) != fmt.Sprint(granted.json["grants"]) {
			t.Fatalf("%s %s, %d used; want the same grants", a.Status, a.text, used(t, c))
		}
	}
	for _, other := range []string{`{"method": "items.insert"}`, `{"method": "items.insert", "calls": 3}`,
		`{"method": "items.insert", "calls": 1000}`,
		`{"method": "items.insert", "calls": 2, "units": 41}`, `{"method": "items.insert", "calls": 2, "region": "IN"}`,
		`{"method": "items.insert", "calls": 2, "lane": "backfill"}`} {
		for range 2 {
			if a := s.do("POST", "/v1/spend", other, key...); a.StatusCode != 422 || used(t, c) != 80 {
				t.Errorf("%s: %s %s, %d used; want that the key was used", other, a.Status, a.text, used(t, c))
			}
		}
	}
	for _, wrong := range []string{strings.Repeat("k", 256), "", " "} {
		if a := s.do("POST", "/v1/spend", `{"method": "items.list"}`, "Idempotency-Key", wrong); a.StatusCode != 422 ||
			used(t, c) != 80 {
			t.Errorf("key %q: %s %s, %d used", wrong, a.Status, a.text, used(t, c))
		}
	}
	if a := s.do("POST", "/v1/spend", `{"method": "items.list"}`, key...); a.StatusCode != 422 ||
		a.json["type"] != "urn:ration:key-reused" {
		t.Errorf("%s %s; want that the key was used", a.Status, a.text)
	}
}

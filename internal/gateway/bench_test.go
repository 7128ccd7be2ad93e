package gateway_test

import (
	"bufio"
	"context"
	"database/sql"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/gateway"
)

// BenchmarkProxy sends each request through httputil.ReverseProxy alone,
// through the gateway with a ledger in memory and with one in SQLite (NORMAL),
// in turns. It reports the quantiles of the latter two relative to the first,
// and the CPU time of each.
func BenchmarkProxy(b *testing.B) {
	u := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
		_ *http.Request) {
		io.WriteString(w, `{"items": []}`)
	}))
	defer u.Close()
	base, err := url.Parse(u.URL)
	if err != nil {
		b.Fatal(err)
	}
	reverse := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(base) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 100}}
	after := func(do func()) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			do()
			reverse.ServeHTTP(w, r)
		}))
		b.Cleanup(s.Close)
		return s.URL + "/x"
	}
	subjects := []*subject{{name: "alone", url: after(func() {})}, {name: "append", url: after(newAppend(b))},
		{name: "transaction", url: after(newTransaction(b))},
		{name: "memory", url: serveBench(b, newMemoryClient(b, benchTable, u.URL), u.URL, "127.0.0.1:0") +
			"/to/api.example.com/x"},
		{name: "sqlite", url: serveBench(b, newNormalClient(b, u.URL), u.URL, "127.0.0.1:0") + "/to/api.example.com/x"}}
	for _, s := range subjects {
		for range 100 {
			s.get(b)
		}
		s.took, s.cpu = s.took[:0], 0
	}
	b.ResetTimer()
	for i := 0; b.Loop(); i++ {
		for turn := range subjects {
			subjects[(i+turn)%len(subjects)].get(b)
		}
	}
	b.StopTimer()
	for _, s := range subjects {
		slices.Sort(s.took)
	}
	for _, s := range subjects {
		b.ReportMetric(float64(s.cpu.Microseconds())/float64(b.N), s.name+"-cpu-µs")
	}
	for _, s := range subjects[1:] {
		for _, percent := range []int{50, 99} {
			b.ReportMetric(s.quantile(percent)/subjects[0].quantile(percent), fmt.Sprintf("%s-p%d-x", s.name, percent))
		}
	}
	b.ReportMetric(subjects[0].quantile(50)/1e3, "alone-p50-µs")
}

// newAppend returns the least that a journal does for a grant: an append to a
// file that other processes append to.
func newAppend(b *testing.B) func() {
	file, err := os.OpenFile(b.TempDir()+"/replica", os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { file.Close() })
	record := make([]byte, 52)
	return func() {
		_, err := file.Stat()
		if _, failed := file.Write(record); err != nil || failed != nil {
			b.Error(err, failed)
		}
	}
}

// newTransaction returns the least that a ledger in SQLite (NORMAL) does for a
// grant: a transaction that inserts a row.
func newTransaction(b *testing.B) func() {
	db, err := sql.Open("sqlite",
		"file:"+b.TempDir()+"/floor.db?_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)&_txlock=immediate")
	if err != nil {
		b.Fatal(err)
	}
	db.SetMaxOpenConns(1)
	b.Cleanup(func() { db.Close() })
	if _, err := db.Exec("CREATE TABLE entries (id INTEGER PRIMARY KEY, units INTEGER)"); err != nil {
		b.Fatal(err)
	}
	insert, err := db.Prepare("INSERT INTO entries (units) VALUES (?)")
	if err != nil {
		b.Fatal(err)
	}
	return func() {
		if _, err := insert.Exec(1); err != nil {
			b.Error(err)
		}
	}
}

// benchTable has a budget that no benchmark exhausts.
const benchTable = `
version: 1
upstream: items
account: my-project
hosts: [api.example.com]
feedback: generic
routes: {"/{path...}": read}
costs: {read: 1}
budgets:
  - {name: day, limit: 100000000000, window: {sliding: 1m}}
`

// subject is a server whose requests are timed.
type subject struct {
	name, url string
	transport http.Transport
	took      []time.Duration
	cpu       time.Duration // of client, server and upstream
}

func (s *subject) get(b *testing.B) {
	began, cpu := time.Now(), cpuTime()
	req, err := http.NewRequest("GET", s.url, nil)
	if err != nil {
		b.Fatal(err)
	}
	resp, err := s.transport.RoundTrip(req)
	if err != nil {
		b.Fatal(err)
	}
	io.Copy(io.Discard, resp.Body)
	resp.Body.Close()
	if resp.StatusCode != 200 {
		b.Fatal(resp.Status)
	}
	s.took = append(s.took, time.Since(began))
	s.cpu += cpuTime() - cpu
}

func (s *subject) quantile(percent int) float64 {
	return float64(s.took[len(s.took)*percent/100])
}

func newNormalClient(b *testing.B, endpoint string) *client.Client {
	b.Helper()
	parsed, err := costs.Parse("costs.yaml", []byte(benchTable))
	if err == nil && endpoint != "" {
		parsed, err = parsed.WithEndpoint("", endpoint)
	}
	if err != nil {
		b.Fatal(err)
	}
	folder := b.TempDir()
	c, err := client.New(parsed, &client.Options{Ledger: "sqlite:" + folder + "/ledger.db?sync=normal", State: folder,
		Replica: folder + "/replica"})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { c.Close() })
	return c
}

func serveBench(t testing.TB, c *client.Client, endpoint, address string) (base string) {
	t.Helper()
	g := gateway.New(&gateway.Options{Endpoint: endpoint})
	g.Use(c)
	listener, base, err := gateway.Listen(address)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- gateway.Serve(ctx, listener, g, time.Second) }()
	t.Cleanup(func() { stop(); <-served })
	return base
}

// BenchmarkSpend asks for units over a Unix socket, from 64 clients in the same
// process. memory and sqlite (NORMAL) are decisions; healthz is a request of
// the same server that decides nothing. cpu-µs is the CPU time of client and
// server for one request: unlike the rate, it depends little on other work of
// the machine.
func BenchmarkSpend(b *testing.B) {
	body := `{"method":"read"}`
	spend := fmt.Sprintf("POST /v1/spend HTTP/1.1\r\nHost: localhost\r\nContent-Type: "+
		"application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	for name, request := range map[string]string{"memory": spend, "sqlite": spend,
		"healthz": "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"} {
		b.Run(name, func(b *testing.B) {
			dir := b.TempDir()
			c := newMemoryClient(b, benchTable, "")
			if name == "sqlite" {
				c = newNormalClient(b, "")
			}
			serveBench(b, c, "", "unix:"+dir+"/s")
			var left atomic.Int64
			left.Store(int64(b.N))
			var clients sync.WaitGroup
			b.ReportAllocs()
			began := cpuTime()
			b.ResetTimer()
			for range 64 {
				clients.Go(func() { askAll(b, dir+"/s", request, &left) })
			}
			clients.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "decisions/s")
			b.ReportMetric(float64((cpuTime()-began).Microseconds())/float64(b.N), "cpu-µs")
		})
	}
}

// askAll sends a request again and again over one connection.
func askAll(b *testing.B, socket, request string, left *atomic.Int64) {
	conn, err := net.Dial("unix", socket)
	if err != nil {
		b.Error(err)
		return
	}
	defer conn.Close()
	reader := bufio.NewReader(conn)
	for left.Add(-1) >= 0 {
		if _, err := io.WriteString(conn, request); err != nil {
			b.Error(err)
			return
		}
		length, status := 0, ""
		for {
			line, err := reader.ReadSlice('\n')
			if err != nil {
				b.Error(err)
				return
			}
			text := strings.TrimSuffix(string(line), "\r\n")
			if status == "" {
				status = text
			}
			if text == "" {
				break
			}
			if value, ok := strings.CutPrefix(text, "Content-Length: "); ok {
				length, _ = strconv.Atoi(value)
			}
		}
		if _, err := reader.Discard(length); err != nil || !strings.Contains(status, " 200 ") {
			b.Errorf("%s %v", status, err)
			return
		}
	}
}

// TestAStreamFillsNoMemory: what streams through the gateway is not held, 10 GB
// of it with RATION_SOAK=1.
func TestAStreamFillsNoMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("streams 256 MB, 2 seconds")
	}
	size := int64(256 << 20)
	if os.Getenv("RATION_SOAK") == "1" {
		size = 10 << 30
	}
	chunk := make([]byte, 64<<10)
	u := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		for sent := int64(0); sent < size; sent += int64(len(chunk)) {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	s := serveBench(t, newMemoryClient(t, benchTable, u.URL), u.URL, "127.0.0.1:0")
	resp, err := http.DefaultTransport.RoundTrip(mustRequest(t, "GET", s+"/to/api.example.com/x"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var most uint64
	for read, sampled := int64(0), int64(0); ; {
		n, err := io.CopyN(io.Discard, resp.Body, size/16)
		read += n
		if err != nil && err != io.EOF {
			t.Fatal(err)
		}
		if read-sampled >= size/16 || err == io.EOF {
			var stats runtime.MemStats
			runtime.ReadMemStats(&stats)
			most, sampled = max(most, stats.HeapSys), read
		}
		if err == io.EOF {
			if read != size {
				t.Errorf("%d bytes of %d", read, size)
			}
			break
		}
	}
	t.Logf("%d MB of heap for %d MB", most>>20, size>>20)
	if most > 256<<20 {
		t.Errorf("%d MB of heap for a stream", most>>20)
	}
}

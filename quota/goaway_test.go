package quota_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

// goingAway is an HTTP/2 server that reads the first request of each connection
// and then says that it goes away and has seen none, so that net/http sends the
// request again. It calls seen for each.
func goingAway(t *testing.T, seen func()) string {
	cert := httptest.NewUnstartedServer(nil)
	cert.StartTLS()
	config := &tls.Config{Certificates: cert.TLS.Certificates, NextProtos: []string{"h2"}}
	cert.Close()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	serve := func(conn net.Conn) {
		defer conn.Close()
		preface := make([]byte, len(http2.ClientPreface))
		if _, err := io.ReadFull(conn, preface); err != nil {
			return
		}
		framer := http2.NewFramer(conn, conn)
		framer.WriteSettings()
		for {
			frame, err := framer.ReadFrame()
			if err != nil {
				return
			}
			if frame.Header().Type == http2.FrameHeaders {
				seen()
				framer.WriteGoAway(0, http2.ErrCodeNo, nil)
			}
		}
	}
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(conn)
		}
	}()
	return "https://" + listener.Addr().String()
}

// TestGoAwayResendsAreWithinTheLimit: every time that net/http sends a request
// again is charged before, also over a connection that another request has
// dialled, and the limit ends it.
func TestGoAwayResendsAreWithinTheLimit(t *testing.T) {
	const limit = 60
	for _, workers := range []int{1, 32} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			var seen atomic.Int32
			url := goingAway(t, func() { seen.Add(1) })
			guard := newGuard(t, nil, budget("day", limit, time.Hour))
			base := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
			defer base.CloseIdleConnections()
			client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), Base: base},
				Timeout: time.Minute}
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					_, err := client.Get(url + "/m")
					refused, ok := errors.AsType[*quota.RefusedError](err)
					if !ok || refused.Budget != "day" {
						t.Errorf("%v; want the refusal", err)
					}
				})
			}
			wg.Wait()
			if got := used(t, guard); seen.Load() > limit || got < quota.Units(seen.Load()) {
				t.Errorf("the upstream saw %d requests, %d units are charged; want at most %d, all of them charged",
					seen.Load(), got, limit)
			}
		})
	}
}

const killedEnv = "QUOTA_TEST_GOAWAY" // the upstream that this binary calls, and its ledger

// TestAKilledProcessIsChargedForItsResends: of a process that net/http keeps
// sending requests for, and that is killed meanwhile, each request is charged
// that the upstream saw.
func TestAKilledProcessIsChargedForItsResends(t *testing.T) {
	insecure := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}
	guarded := func(path string) *quota.Guard {
		ledger, err := sqliteledger.Open(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ledger.Close() })
		guard, err := quota.NewGuard(ledger, []quota.Budget{budget("day", 5000, time.Hour)}, nil)
		if err != nil {
			t.Fatal(err)
		}
		return guard
	}
	if url, path, ok := strings.Cut(os.Getenv(killedEnv), " "); ok {
		client := &http.Client{Transport: &quota.Transport{Guard: guarded(path), Price: priced(1), Base: insecure}}
		_, err := client.Get(url + "/m")
		t.Fatalf("%v; want to be killed", err)
	}
	var seen atomic.Int32
	started := make(chan *os.Process, 1)
	url := goingAway(t, func() {
		if seen.Add(1) == 50 {
			_ = (<-started).Kill()
		}
	})
	path := filepath.Join(t.TempDir(), "ration.db")
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestAKilledProcessIsChargedForItsResends$")
	child.Env = append(os.Environ(), killedEnv+"="+url+" "+path)
	var out bytes.Buffer
	child.Stdout, child.Stderr = &out, &out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	started <- child.Process
	if err := child.Wait(); out.Len() > 0 || err == nil {
		t.Fatalf("%v: %s; want a process that is killed", err, &out)
	}
	if got, hits := used(t, guarded(path)), quota.Units(seen.Load()); got < hits || got > hits+1 {
		t.Errorf("the upstream saw %d requests, %d are charged; want all of them, and at most the next", hits, got)
	}
}

// cutting is an HTTP/1 server that answers the first request of each connection
// and cuts the connection after it has read the next one, which net/http then
// sends again.
func cutting(t *testing.T, hits *atomic.Int32) string {
	type seen struct{}
	up := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		hits.Add(1)
		if r.Context().Value(seen{}).(*atomic.Int32).Add(1) > 1 {
			panic(http.ErrAbortHandler)
		}
	}))
	up.Config.ConnContext = func(ctx context.Context, _ net.Conn) context.Context {
		return context.WithValue(ctx, seen{}, new(atomic.Int32))
	}
	up.Start()
	t.Cleanup(up.Close)
	return up.URL
}

// TestResendsOverReusedConnectionsAreWithinTheLimit: however many workers share
// the connections, the upstream counts exactly the limit.
func TestResendsOverReusedConnectionsAreWithinTheLimit(t *testing.T) {
	limit := 2000
	if testing.Short() {
		limit = 200
	}
	for _, workers := range []int{1, 4, 16} {
		t.Run(fmt.Sprint(workers), func(t *testing.T) {
			var hits, calls atomic.Int32
			url := cutting(t, &hits)
			guard := newGuard(t, nil, budget("day", quota.Units(limit), time.Hour))
			base := &http.Transport{MaxIdleConnsPerHost: 16}
			defer base.CloseIdleConnections()
			client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: priced(1), Base: base}}
			var wg sync.WaitGroup
			for range workers {
				wg.Go(func() {
					for {
						calls.Add(1)
						resp, err := client.Get(url)
						if errors.Is(err, quota.ErrRefused) {
							return
						}
						if err != nil {
							t.Error(err)
							continue
						}
						io.Copy(io.Discard, resp.Body)
						resp.Body.Close()
					}
				})
			}
			wg.Wait()
			if got := used(t, guard); int(hits.Load()) != limit || got != quota.Units(limit) {
				t.Errorf("the upstream saw %d requests, %d are charged; want exactly %d", hits.Load(), got, limit)
			}
			if int(calls.Load()) >= limit {
				t.Errorf("%d calls for %d requests; want resends", calls.Load(), limit)
			}
		})
	}
}

package redisledger_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// childURL makes the test binary one of many spending processes.
const childURL = "RATION_TEST_CHILD"

// child spends calls of 100, 7 and 1 units until 1 unit is refused, and prints
// how many units were granted.
func child(url string) int {
	l, err := redisledger.Open(url, nil)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer l.Close()
	var granted atomic.Int64
	var failed atomic.Value
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for _, units := range []quota.Units{100, 7, 1} {
				for {
					r := quota.Request{Method: "m", Units: units, Charges: []*quota.Charge{day}}
					answers, err := l.Spend(context.Background(), &quota.Batch{Account: account, Requests: []quota.Request{r}})
					if err != nil {
						failed.Store(err.Error())
						return
					}
					if answers[0].Err != nil {
						break
					}
					granted.Add(int64(units))
				}
			}
		})
	}
	wg.Wait()
	if err := failed.Load(); err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Print(granted.Load())
	return 0
}

// TestEightProcesses: the grants of eight processes add up to the limit.
func TestEightProcesses(t *testing.T) {
	server := redistest.Start(t)
	var total atomic.Int64
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			cmd := exec.Command(os.Args[0])
			cmd.Env = append(os.Environ(), childURL+"="+server.URL())
			out, err := cmd.Output()
			granted, parseErr := strconv.ParseInt(string(out), 10, 64)
			if err != nil || parseErr != nil {
				t.Errorf("child: %s, %v", out, err)
			}
			total.Add(granted)
		})
	}
	wg.Wait()
	l, err := redisledger.Open(server.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if sum := used(t, l, day); total.Load() != int64(day.Limit) || sum != day.Limit {
		t.Errorf("granted %d, the ledger holds %d; want %d exactly", total.Load(), sum, day.Limit)
	}
}

// proxy is between a client and a server, and can lose an answer.
type proxy struct {
	net.Listener
	server string
	cut    atomic.Bool // the next answer is dropped, and its connection
	hold   atomic.Bool // the next answer and all later ones are held back

	answers atomic.Int64 // that have passed
}

func startProxy(t *testing.T, server string) *proxy {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: listener, server: server}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

func (p *proxy) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.server)
	if err != nil {
		return
	}
	defer server.Close()
	go func() {
		_, _ = io.Copy(server, client)
		_ = server.Close()
	}()
	buf := make([]byte, 64<<10)
	for {
		n, err := server.Read(buf)
		if err != nil || p.cut.CompareAndSwap(true, false) {
			return
		}
		if p.hold.CompareAndSwap(true, false) {
			_, _ = io.Copy(io.Discard, server)
			return
		}
		if _, err := client.Write(buf[:n]); err != nil {
			return
		}
		p.answers.Add(1)
	}
}

// TestLongKeysAreReadOneByOne: each key of more than 48 bytes took a round
// trip, all of which had a second together: over a network of some
// milliseconds, Keys said that the ledger is down.
func TestLongKeysAreReadOneByOne(t *testing.T) {
	server := redistest.Start(t)
	p := startProxy(t, server.Addr)
	l := fresh(t, "redis://"+p.Addr().String(), nil)
	const keys = 300
	for i := range keys {
		key := fmt.Sprintf("%060d", i)
		if _, err := l.Spend(t.Context(), &quota.Batch{Account: account, Key: key, Requests: []quota.Request{{Method: "m", Units: 1, Charges: []*quota.Charge{day}}}}); err != nil {
			t.Fatal(err)
		}
	}
	before, found := p.answers.Load(), 0
	for _, err := range l.Keys(t.Context(), account) {
		if err != nil {
			t.Fatal(err)
		}
		found++
	}
	if took := p.answers.Load() - before; found != keys || took > keys/3 {
		t.Errorf("%d of %d keys took %d round trips", found, keys, took)
	}
}

// TestAnswerLost: the script ran, but its answer never arrives. The call is
// granted and charged once. Clients given to New have go-redis' own retries.
func TestAnswerLost(t *testing.T) {
	if testing.Short() {
		t.Skip("loses 300 answers, 5 seconds")
	}
	t.Parallel()
	server := redistest.Start(t)
	p := startProxy(t, server.Addr)
	url := "redis://" + p.Addr().String()
	theirs := redis.NewClient(&redis.Options{Addr: p.Addr().String()})
	t.Cleanup(func() { _ = theirs.Close() })
	for name, l := range map[string]*redisledger.Ledger{
		"opened": fresh(t, url, nil),
		"given":  redisledger.New(theirs, &redisledger.Options{Prefix: "given"}),
	} {
		t.Run(name, func(t *testing.T) {
			mustSpend(t, l, "m", 1, day)
			for i := range quota.Units(50) {
				p.cut.Store(true)
				receipt := mustSpend(t, l, "m", 100, day)
				if sum := used(t, l, day); sum != 1+100*(i+1) {
					t.Fatalf("%d units after %d calls of 100 and one of 1", sum, i+1)
				}
				for _, units := range []quota.Units{40, 100} {
					p.cut.Store(true)
					err := l.Settle(t.Context(), receipt, units)
					for errors.Is(err, quota.ErrInDoubt) { // a busy machine took the whole second; a retry is harmless
						err = l.Settle(t.Context(), receipt, units)
					}
					if err != nil {
						t.Fatal(err)
					}
				}
			}
			p.hold.Store(true)
			began := time.Now()
			mustSpend(t, l, "m", 100, day)
			if sum, took := used(t, l, day), time.Since(began); sum != 5101 || took > 3*time.Second {
				t.Fatalf("%d units, after %s; want 5101 in about half a second", sum, took)
			}
		})
	}
}

// TestSettleUpFarIsAddedOnce loses the answer of the one settle that adds
// an entry.
func TestSettleUpFarIsAddedOnce(t *testing.T) {
	server := redistest.Start(t)
	p := startProxy(t, server.Addr)
	l := fresh(t, "redis://"+p.Addr().String(), nil)
	first := mustSpend(t, l, "m", 10, day)
	if err := l.Settle(t.Context(), first, 10); err != nil { // from here on the server knows the script
		t.Fatal(err)
	}
	for range quota.MaxSettle + 1 {
		mustSpend(t, l, "m", 1, day)
	}
	p.cut.Store(true)
	if err := l.Settle(t.Context(), first, 17); err != nil {
		t.Fatal(err)
	}
	if sum := used(t, l, day); sum != 17+quota.MaxSettle+1 {
		t.Fatalf("%d units; want 7 more, once", sum)
	}
}

// TestServerThatHangsChargesTwice stops the server's process while calls are in
// flight. Each call is charged at most once, and exactly once if granted. None
// takes much longer than a second.
func TestServerThatHangsChargesTwice(t *testing.T) {
	if testing.Short() {
		t.Skip("waits five seconds for a server that hangs")
	}
	server := redistest.Start(t)
	for _, stands := range []time.Duration{300 * time.Millisecond, 700 * time.Millisecond, 4 * time.Second} {
		t.Run(stands.String(), func(t *testing.T) {
			l := fresh(t, server.URL(), nil)
			mustSpend(t, l, "m", 1, day)
			server.Hang(t)
			goesOn := make(chan struct{})
			time.AfterFunc(stands, func() {
				server.GoOn(t)
				close(goesOn)
			})
			began := time.Now()
			_, err := spend(t, l, "m", 100, day)
			took := time.Since(began)
			if took > 3*time.Second || err != nil && (!errors.Is(err, quota.ErrInDoubt) || errors.Is(err, quota.ErrLedgerDown)) {
				t.Fatalf("%v after %s; want a grant or ErrInDoubt, in about a second", err, took)
			}
			if (err == nil) != (stands < time.Second) {
				t.Errorf("%v after %s", err, took)
			}
			<-goesOn
			for range 20 {
				mustSpend(t, l, "m", 1, day)
			}
			large := 0
			for _, e := range entries(t, l) {
				if e.Units == 100 {
					large++
				}
			}
			if large > 1 || err == nil && large != 1 || used(t, l, day) != quota.Units(21+100*large) {
				t.Errorf("charged %d times, %d units in all", large, used(t, l, day))
			}
		})
	}
}

// TestDoubtSaysHowTheAnswerWasLost: a call in doubt said why its last try had
// failed, which can be that it was not sent.
func TestDoubtSaysHowTheAnswerWasLost(t *testing.T) {
	server := redistest.Start(t)
	p := startProxy(t, server.Addr)
	l := fresh(t, "redis://"+p.Addr().String(), nil)
	mustSpend(t, l, "m", 1, day)
	p.cut.Store(true)
	_ = p.Close()
	_, err := spend(t, l, "m", 1, day)
	want := "connection refused; an answer was lost before: EOF"
	if !errors.Is(err, quota.ErrInDoubt) || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%v; want ErrInDoubt and %q", err, want)
	}
}

//go:build !race

package sim

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
)

// host has clocks and a journal, which outlive its processes.
type host struct {
	number int
	dir    string
	ahead  time.Duration // of its clock
	boot   uint64        // identifies its start; 0 if it does not tell
	booted time.Time
	usual  time.Time // when it last used the usual file

	// told is when the newest grant or refusal was decided, of those it has
	// journaled with what each budget then held.
	told [len(budgets)]time.Time
}

// process is one run of a job: the real guard, transport, journal and combiner
// over a connection of its own.
type process struct {
	w       *world
	host    *host
	number  int
	killAt  time.Time
	limits  limits
	remote  *remote
	ledger  *journal.Ledger
	guard   *quota.Guard
	through *quota.Transport
}

func (p *process) isDead() bool { return !p.killAt.IsZero() && !time.Now().Before(p.killAt) }

// start starts a process with the budgets of a file and a part of their limits:
// in some worlds, as two files configure them.
func (w *world) start(h *host, lifetime time.Duration, file []int, part quota.Units) *process {
	w.processes++
	p := &process{w: w, host: h, number: w.processes}
	if lifetime > 0 {
		p.killAt = time.Now().Add(lifetime)
	}
	var own []quota.Budget
	for _, i := range file {
		b := budgets[i]
		b.Limit = max(1, b.Limit*part/100)
		if w.twoFiles() {
			b.Config = quota.Config{Name: fmt.Sprintf("%v %d%%", file, part), Changed: w.began}
		}
		own, p.limits[i] = append(own, b), b.Limit
	}
	p.remote = newRemote(w.server, w.seed, uint64(p.number), p.isDead)
	p.ledger = journal.New(p.remote, h.dir, &journal.Options{
		Budgets: own,
		Allow:   func(quota.Call) quota.Units { return allowance },
		Now:     func() time.Time { return time.Now().Add(h.ahead) },
		Uptime:  func() (uint64, time.Duration) { return h.boot, time.Since(h.booted) },
		Report: func(err error) {
			w.event("process %d reports %v", p.number, kindOf(err))
			if restored, ok := errors.AsType[*journal.RestoredError](err); ok {
				if restored.Lost != nil {
					w.repairs++
				}
				w.checkHeld(h)
			}
		},
	})
	var err error
	if p.guard, err = quota.NewGuard(&observer{p.ledger, p}, own, nil); err != nil {
		w.t.Fatal(err)
	}
	p.through = &quota.Transport{Guard: p.guard, Price: price, Base: byContext{}, MaxWait: w.maxWait, Retries: 1, Feedback: p.feedback}
	return p
}

func kindOf(err error) string {
	if restored, ok := errors.AsType[*journal.RestoredError](err); ok {
		text := "restored"
		if restored.Lost != nil {
			text = "forgotten, restored"
		}
		return text
	}
	return err.Error()
}

// run makes calls until the process ends or is killed.
func (p *process) run(seed2 uint64) {
	rng := rand.New(rand.NewPCG(p.w.seed^0x9E3779B97F4A7C15, seed2))
	var workers sync.WaitGroup
	for range 1 + rng.IntN(3) {
		own := rand.New(rand.NewPCG(rng.Uint64(), rng.Uint64()))
		workers.Go(func() {
			for n := own.IntN(30); n > 0 && !p.isDead(); n-- {
				time.Sleep(time.Duration(1 + own.Int64N(int64(20*time.Second))))
				if err := p.call(own); err != nil && own.IntN(3) > 0 {
					break
				}
			}
		})
	}
	workers.Wait()
	p.w.event("process %d of host %d ends, killed %v", p.number, p.host.number, p.isDead())
	_ = p.ledger.Close() // of a process that was killed the system closes the files
}

// call is one call of a job. The context carries it to the upstream.
type call struct {
	p       *process
	method  string
	real    quota.Units
	rng     *rand.Rand // of the worker
	granted []*sending
	sent    int
}

type callKey struct{}

func callFrom(ctx context.Context) *call {
	c, _ := ctx.Value(callKey{}).(*call)
	return c
}

func (p *process) call(rng *rand.Rand) error {
	c := &call{p: p, rng: rng, method: "list", real: 1}
	if p.w.costsRise() && rng.IntN(40) == 0 {
		c.real = quota.Units(2 + rng.IntN(9))
	}
	if rng.IntN(6) == 0 {
		c.method, c.real = "search", 100
		if rng.IntN(3) == 0 {
			c.real = quota.Units(1 + rng.IntN(100))
		}
	}
	ctx := context.WithValue(context.Background(), callKey{}, c)
	if p.w.hasCallers() {
		ctx = quota.WithCaller(ctx, quota.Caller{Lane: []string{"cron", "manual"}[rng.IntN(2)], Region: []string{"EU", "US"}[rng.IntN(2)]})
	}
	if rng.IntN(2) == 0 { // else the combiner leads in the caller's goroutine
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(1+rng.Int64N(int64(time.Minute))))
		defer cancel()
	}
	if rng.IntN(10) == 0 {
		return p.refund(ctx, c, rng)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://upstream.example/"+c.method, nil)
	if err != nil {
		p.w.t.Fatal(err)
	}
	resp, err := p.through.RoundTrip(req.WithContext(context.WithValue(ctx, tripKey{}, trip{p, rng})))
	if err == nil {
		resp.Body.Close()
	}
	return p.checkWait(err)
}

// refund is a call that is granted and never sent.
func (p *process) refund(ctx context.Context, c *call, rng *rand.Rand) error {
	call, _ := price(&http.Request{Method: c.method})
	grant, err := p.guard.Spend(ctx, call)
	if err == nil && rng.IntN(4) > 0 && !p.isDead() {
		p.w.event("process %d refunds: %v", p.number, grant.Refund(ctx) == nil)
	}
	return p.checkWait(err)
}

// checkWait checks I5, and returns err.
func (p *process) checkWait(err error) error {
	refused, ok := errors.AsType[*quota.RefusedError](err)
	if !ok || refused.Reason == quota.ReasonCooldown {
		return err
	}
	for i, b := range budgets {
		if p.limits[i] > 0 && b.Name == refused.Budget && refused.RetryAfter > b.Window.Horizon()+quota.MaxStepBack {
			p.w.fail("I5: process %d must wait %v for %s", p.number, refused.RetryAfter, b.Name)
		}
	}
	return err
}

func price(req *http.Request) (quota.Call, error) {
	method := req.Method
	if req.URL != nil {
		method = req.URL.Path[1:]
	}
	units := quota.Units(1)
	if method == "search" {
		units = 100
	}
	return quota.Call{Account: account, Method: method, Units: units}, nil
}

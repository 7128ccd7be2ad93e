//go:build !race

package sim

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/ration-dev/ration/quota"
)

// observer stands between a guard and its journal and records what is granted.
type observer struct {
	quota.Ledger
	p *process
}

func (o *observer) RealTime() bool { return quota.RealTime(o.Ledger) }

func (o *observer) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	begin := time.Now()
	answers, err := o.Ledger.Spend(ctx, batch)
	c := callFrom(ctx)
	if c != nil { // one answer wakes all whose calls were combined
		time.Sleep(time.Duration(1 + c.rng.Int64N(int64(100*time.Microsecond))))
	}
	if batch.Key == "" {
		o.p.w.event("process %d of host %d spends: %v", o.p.number, o.p.host.number, outcome(answers, err))
	}
	if err != nil && !errors.Is(err, quota.ErrRefused) {
		o.p.w.mu.Lock()
		o.p.w.unknown += batch.Requests[0].Units
		o.p.w.mu.Unlock()
	}
	if err == nil && batch.Key == "" {
		o.p.refusalTells(answers[0].Err)
	}
	if err != nil || batch.Key != "" || answers[0].Err != nil {
		return answers, err
	}
	isTold := len(answers[0].Held) > 0 || o.p.remote.heard.After(begin) // a repeated answer says nothing
	s := o.p.w.grant(o.p, &batch.Requests[0], answers[0].Receipt, begin, isTold)
	if c != nil {
		s.real = c.real
		c.granted = append(c.granted, s)
	}
	return answers, err
}

func (o *observer) Settle(ctx context.Context, r quota.Receipt, units quota.Units) error {
	err := o.Ledger.Settle(ctx, r, units)
	o.p.w.mu.Lock()
	defer o.p.w.mu.Unlock()
	for _, s := range o.p.w.grants {
		if err == nil && s.receipt.ID == r.ID {
			s.charged = max(s.charged, units)
		}
	}
	return err
}

func outcome(answers []quota.Answer, err error) string {
	if err == nil {
		err = answers[0].Err
	}
	for _, known := range []error{quota.ErrRefused, quota.ErrInDoubt, quota.ErrLedgerDown, quota.ErrLedgerLost, context.DeadlineExceeded} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	if err != nil {
		return err.Error()
	}
	if answers[0].Receipt.Epoch == 0 {
		return "allowance"
	}
	return "granted"
}

// grant records a grant that a host was told of, and with it what the ledger
// must know by now: it was decided after the host had restored what it could.
func (w *world) grant(p *process, request *quota.Request, r quota.Receipt, begin time.Time, isTold bool) *sending {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.grants) > 0 && time.Since(w.grants[0].decided) > 50*time.Hour {
		w.grants = w.grants[1:]
	}
	s := &sending{host: p.host.number, process: p.number, method: request.Method, caller: request.Caller, price: request.Units, charged: request.Units, receipt: r, limits: p.limits}
	w.grants = append(w.grants, s)
	if r.Epoch == 0 {
		s.allowance, s.decided = true, time.Now()
		s.ahead, s.boot = p.host.ahead, p.host.boot
		s.knownSince(never)
		return s
	}
	d := w.server.decided[grantID{r.ID, r.At.UnixMicro()}]
	s.decided = d.at
	s.knownSince(d.at)
	if s.inFlight = d.life != w.server.life; s.inFlight {
		return s
	}
	for _, x := range w.grants {
		x.restore(p, begin, s.decided)
	}
	for i := range budgets {
		if isTold && p.limits[i] > 0 && covers(&budgets[i], s) && s.decided.After(p.host.told[i]) {
			p.host.told[i] = s.decided
		}
	}
	return s
}

// refusalTells notes that a refusal told the host what a budget holds, if it
// learnt the newest entry of the same life of the log.
func (p *process) refusalTells(err error) {
	refused, ok := errors.AsType[*quota.RefusedError](err)
	isTold := ok && p.remote.newestLife == p.remote.decidedLife
	if !isTold || refused.Used == 0 || refused.Ahead != 0 {
		return
	}
	p.w.mu.Lock()
	defer p.w.mu.Unlock()
	for i := range budgets {
		isHeard := budgets[i].Name == refused.Budget && (p.w.twoFiles() || refused.Used <= refused.Limit)
		if p.limits[i] > 0 && isHeard && p.remote.decided.After(p.host.told[i]) {
			p.host.told[i] = p.remote.decided
		}
	}
}

// forget has the server lose its log, or the tail of it.
func (w *world) forget(back int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	after := w.server.lose(back)
	kept := map[quota.ID]bool{}
	for _, e := range after {
		kept[e.ID] = true
	}
	lost := 0
	for _, x := range w.grants {
		if !kept[x.receipt.ID] && x.forget(w.hosts) {
			lost++
		}
	}
	w.event("the ledger goes %d copies back and forgets %d grants", back, lost)
	w.losses++
	w.forgot, w.isOlder = time.Now(), back > 0
}

type tripKey struct{}

// byContext is the Base of a Transport. All workers of a process share that,
// and each has a trip of its own.
type byContext struct{}

func (byContext) RoundTrip(req *http.Request) (*http.Response, error) {
	return req.Context().Value(tripKey{}).(trip).RoundTrip(req)
}

// feedback is what a dialect says of the upstream's answers.
func (p *process) feedback(c quota.Call, resp *http.Response) quota.Verdict {
	after := 700*time.Millisecond + time.Duration(p.number) // without one, the pause has jitter that no seed decides
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
		return quota.Verdict{For: 30 * time.Second, Reason: "429", Transient: true, After: after}
	case http.StatusServiceUnavailable:
		return quota.Verdict{Transient: true, After: after}
	}
	real := callFrom(resp.Request.Context()).real
	return quota.Verdict{Settled: real != c.Units, Units: real}
}

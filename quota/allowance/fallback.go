package allowance

import (
	"context"
	"fmt"
	"time"

	"github.com/ration-dev/ration/quota"
)

// fallBack decides a batch without the ledger, which is down.
func (l *Ledger) fallBack(ctx context.Context, batch *quota.Batch, down error) ([]quota.Answer, error) {
	if err := batch.Check(); err != nil {
		return nil, err
	}
	answers := make([]quota.Answer, len(batch.Requests))
	var counted []int // the requests that the file decides
	for i := range batch.Requests {
		r := &batch.Requests[i]
		if err := r.Check(batch.Account); err != nil {
			answers[i].Err = err
			continue
		}
		if r.Kind != quota.EntryCall {
			answers[i].Err = fmt.Errorf("allowance: %s is not a call, and the ledger is down: %w; repair the ledger", r.Method, down)
			continue
		}
		if !r.Force && l.allowed(batch, r) == 0 {
			answers[i].Err = fmt.Errorf("allowance: %s has none while the ledger is down: %w; repair the ledger", r.Method, down)
			continue
		}
		counted = append(counted, i)
	}
	if len(counted) == 0 {
		return answers, nil
	}
	client, seq := l.batchID(batch)
	err := l.files.update(ctx, batch.Account, func(log *log, now time.Time) (lines []line) {
		used := log.used(now)
		for _, i := range counted {
			r, id := &batch.Requests[i], quota.ID{Client: client, Seq: seq + uint64(i)}
			if have := log.find(id); have != nil { // an earlier attempt was granted
				answers[i].Receipt = have.receipt(batch, id)
				continue
			}
			if allowed := l.allowed(batch, r); !r.Force && used+r.Units > allowed {
				answers[i].Err = fmt.Errorf("allowance: %s needs %d units, %d of %d are left while the ledger is down: %w; repair the ledger",
					r.Method, r.Units, max(0, allowed-used), allowed, down)
				continue
			}
			used += r.Units
			spend := log.newSpend(batch, r, id, now)
			lines = append(lines, spend)
			answers[i].Receipt = spend.receipt(batch, id)
		}
		return lines
	})
	if err != nil && ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	for _, i := range counted {
		if err != nil {
			answers[i] = quota.Answer{Err: fmt.Errorf("allowance: %s cannot be counted (%w) while the ledger is down: %w; repair one of them",
				batch.Requests[i].Method, err, down)}
		} else if answers[i].Err == nil {
			l.recordForeign(answers[i].Receipt)
		}
	}
	return answers, nil
}

func (l *Ledger) allowed(batch *quota.Batch, r *quota.Request) quota.Units {
	if l.allow == nil {
		return 0
	}
	return l.allow(quota.Call{Account: batch.Account, Key: batch.Key, Method: r.Method, Units: r.Units, Caller: r.Caller})
}

// batchID returns the id of a batch's first request.
func (l *Ledger) batchID(batch *quota.Batch) (client, seq uint64) {
	if batch.Client != 0 {
		return batch.Client, batch.Seq
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	seq = l.seq
	l.seq += uint64(len(batch.Requests))
	return l.client, seq
}

// recordForeign records a grant of this Ledger whose id has another client.
func (l *Ledger) recordForeign(receipt quota.Receipt) {
	if receipt.ID.Client == l.client {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.foreign) >= 1024 {
		for id, at := range l.foreign {
			if receipt.At.Sub(at) >= window {
				delete(l.foreign, id)
			}
		}
	}
	l.foreign[receipt.ID] = receipt.At
}

// grantedHere reports whether an id was granted within the allowance.
func (l *Ledger) grantedHere(id quota.ID) bool {
	if id.Client == l.client {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, ok := l.foreign[id]
	return ok
}

package redisledger

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/quota"
)

// errReplicas is why a grant that waits for replicas is in doubt.
var errReplicas = errors.New("too few replicas answered")

// trySpend sends a batch once. If replicas are to be waited for, it keeps the
// connection, since WAIT waits for what was written over its own.
func (l *Ledger) trySpend(op *scriptRunner, p *spendBatch) (any, error) {
	if l.address == nil || l.address.replicas == 0 {
		return op.try(&spendScript, p.keys, p.args)
	}
	p.release()
	switch c := l.client.(type) {
	case *redis.Client:
		p.conn = c.Conn()
	case *redis.ClusterClient:
		node, err := c.MasterForKey(op.ctx, p.meta)
		if err != nil {
			return nil, &unsentError{err}
		}
		p.conn = node.Conn()
	}
	op.on = p.conn
	defer func() { op.on = nil }()
	return op.try(&spendScript, p.keys, p.args)
}

// release returns the connection of the batch.
func (p *spendBatch) release() {
	if p.conn != nil {
		_ = p.conn.Close()
		p.conn = nil
	}
}

// awaitReplicas waits until the replicas have the grants of a batch. Without
// them, the batch is in doubt.
func (l *Ledger) awaitReplicas(ctx context.Context, p *spendBatch, answers []quota.Answer) error {
	if p.conn == nil || !slices.ContainsFunc(answers, func(a quota.Answer) bool { return a.Err == nil }) {
		return nil
	}
	wait := patience
	if deadline, ok := ctx.Deadline(); ok {
		wait = time.Until(deadline) - 3*leastTry/2 // Redis may notice the end of a wait 100 ms late
	}
	have, err := p.conn.Wait(ctx, l.address.replicas, max(wait, time.Millisecond)).Result() // beyond the client's ReadTimeout
	if err == nil && have < int64(l.address.replicas) {
		err = fmt.Errorf("%w: %d of %d have the grant", errReplicas, have, l.address.replicas)
	}
	if _, ok := errors.AsType[redis.Error](err); ok && classify(err) == config {
		return l.failed(err, config, false)
	}
	if err != nil {
		return l.failed(err, unknown, true)
	}
	return nil
}

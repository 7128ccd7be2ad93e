package redisledger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// scriptRunner runs the scripts of one call to the ledger, within one deadline.
type scriptRunner struct {
	ledger *Ledger
	ctx    context.Context
	doubt  bool  // an answer was lost, so a script may have written
	lost   int   // how many answers were lost
	lostBy error // how the first of them was
	pause  time.Duration
	on     *redis.Conn // where to send; nil is any connection
}

// once is a command that go-redis must not retry: it would retry on a timeout,
// and charge twice (measured on v9.23.0, in a cluster too).
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

// onceStrings is once for a command that returns strings.
type onceStrings struct{ *redis.StringSliceCmd }

// NoRetry implements redis.Cmder.
func (onceStrings) NoRetry() bool { return true }

const (
	firstPause = 10 * time.Millisecond
	lastPause  = 100 * time.Millisecond
	leastTry   = 100 * time.Millisecond // a shorter one would often end in doubt on a busy host
	maxLost    = 5                      // answers of one operation
)

// run runs a script and returns its answer. It retries transient errors and
// lost answers until the deadline, so the script must be idempotent.
func (o *scriptRunner) run(s *script, keys []string, args []any) (*reply, error) {
	for {
		value, err := o.try(s, keys, args)
		if err == nil {
			return newReply(value), nil
		}
		if _, err = o.after(s, err); err != nil {
			return nil, err
		}
	}
}

// after decides what follows a failed try. It returns nil, after a pause, when
// the script can be retried. It reports whether an answer was lost.
func (o *scriptRunner) after(s *script, err error) (lost bool, _ error) {
	found := classify(err)
	lost = found == unknown
	if lost {
		o.lost++
		o.doubt = o.doubt || s.writes
		o.lostBy = cmp.Or(o.lostBy, err)
	}
	pause := max(o.pause, firstPause)
	if found > busy || o.lost >= maxLost || !o.rest(pause) {
		if o.doubt && !lost {
			err = fmt.Errorf("%w; an answer was lost before: %w", err, o.lostBy)
		}
		return lost, o.ledger.failed(err, found, o.doubt)
	}
	o.pause = min(2*pause, lastPause)
	return lost, nil
}

// rest pauses and reports true, or false at once if no time would be left for
// another try.
func (o *scriptRunner) rest(pause time.Duration) bool {
	deadline, ok := o.ctx.Deadline()
	if ok && time.Until(deadline) < pause+leastTry {
		return false
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-o.ctx.Done():
		return false
	}
}

// try sends a script once. It may take half of the time that is left, which
// leaves some for a retry.
func (o *scriptRunner) try(s *script, keys []string, args []any) (any, error) {
	ctx := o.ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(time.Until(deadline)/2, leastTry))
		defer cancel()
	}
	line := make([]any, 3, 3+len(keys)+len(args))
	line[0] = "evalsha"
	line[1] = s.sha
	line[2] = len(keys)
	for _, key := range keys {
		line = append(line, key)
	}
	line = append(line, args...)
	value, err := o.send(ctx, line)
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		whole := append([]any(nil), line...)
		whole[0], whole[1] = "eval", s.text
		value, err = o.send(ctx, whole)
	}
	return value, err
}

// send sends one command.
func (o *scriptRunner) send(ctx context.Context, line []any) (any, error) {
	if o.on == nil {
		return o.ledger.send(ctx, line)
	}
	cmd := redis.NewCmd(ctx, line...)
	err := o.ledger.reloadSlots(ctx, o.on.Process(ctx, once{cmd}))
	return cmd.Val(), err
}

// errSilent means that there was no answer before the deadline.
var errSilent = errors.New("no answer in time")

// send sends one command.
func (l *Ledger) send(ctx context.Context, line []any) (any, error) {
	cmd := redis.NewCmd(ctx, line...)
	if err := l.process(ctx, once{cmd}); err != nil {
		return nil, err
	}
	return cmd.Val(), nil
}

// process sends one command: a once, a onceStrings or one that only reads. If
// its error is errSilent, the command may still be written to.
func (l *Ledger) process(ctx context.Context, cmd redis.Cmder) error {
	_, err := await(ctx, l, func() (struct{}, error) { return struct{}{}, l.sendCommand(ctx, cmd) })
	return err
}

// await returns what ask returns. A client given to New may ignore deadlines,
// so await abandons it with errSilent when the time is up.
func await[T any](ctx context.Context, l *Ledger, ask func() (T, error)) (T, error) {
	if l.own {
		return ask()
	}
	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		value, err := ask()
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return result{}.value, errSilent
	}
}

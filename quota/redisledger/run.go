package redisledger

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/engine"
)

// command is one run of the script.
type command struct {
	account string
	args    []any // KEYS and ARGV
	append  bool
}

// once is a command that go-redis must not retry. Else it retries when an
// answer is lost, in a cluster even with MaxRetries -1, and appends twice
// (measured on v9.23.0).
type once struct{ *redis.StringSliceCmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

const (
	firstPause = 10 * time.Millisecond
	lastPause  = 100 * time.Millisecond
	leastTry   = 100 * time.Millisecond // a shorter one would often end in doubt on a busy host
)

// run runs the script once. It retries it until its time is up, if it was
// certainly not run, or if its answer was lost and it only reads.
func (l *Ledger) run(ctx context.Context, c *command) (*engine.Tail, error) {
	if err := l.check(ctx); err != nil {
		return nil, err
	}
	within, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, lastPause) {
		var tail *engine.Tail
		answer, err := l.try(within, c)
		if err == nil {
			tail, err = parseTail(answer)
		}
		if err == nil {
			return tail, nil
		}
		found := classify(err)
		isLost := found == unknown && c.append
		if found > busy || isLost || !rest(within, pause) {
			return nil, fmt.Errorf("account %q: %w", c.account, l.ended(ctx, err, found, isLost))
		}
	}
}

// check returns the error of an operation that must not begin.
func (l *Ledger) check(ctx context.Context) error {
	if l.closed.Load() {
		return l.failed(redis.ErrClosed, down, false)
	}
	return ctx.Err()
}

// ended returns the error of an operation that failed. It is the context's if
// that has ended, unless the operation is in doubt.
func (l *Ledger) ended(ctx context.Context, err error, found errorClass, doubt bool) error {
	ended := ctx.Err()
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		ended = context.DeadlineExceeded // a connection may notice it before the context does
	}
	switch {
	case ended == nil:
		return l.failed(err, found, doubt)
	case doubt:
		return fmt.Errorf("%w: %w", l.failed(err, found, doubt), ended)
	}
	return fmt.Errorf("redis at %s: %w", l.where, ended)
}

// rest pauses and reports true, or false at once if no time would be left for
// another try.
func rest(ctx context.Context, pause time.Duration) bool {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < pause+leastTry {
		return false
	}
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}

// try sends the script once. A read may take half of the time that is left,
// which leaves some for another try. An append has none: it may take all of it.
func (l *Ledger) try(ctx context.Context, c *command) ([]string, error) {
	if deadline, ok := ctx.Deadline(); ok && !c.append {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(time.Until(deadline)/2, leastTry))
		defer cancel()
	}
	answer, err := l.send(ctx, append([]any{"evalsha", script.Hash()}, c.args...)...)
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		answer, err = l.send(ctx, append([]any{"eval", appendLua}, c.args...)...)
	}
	return answer, err
}

// errSilent means that there was no answer in time.
var errSilent = errors.New("no answer in time")

// send sends one command. A client given to New may ignore deadlines, so send
// abandons it when the time is up.
func (l *Ledger) send(ctx context.Context, command ...any) ([]string, error) {
	cmd := once{redis.NewStringSliceCmd(ctx, command...)}
	if l.address != nil {
		err := l.client.Process(ctx, cmd)
		return cmd.Val(), l.reloadSlots(ctx, err)
	}
	done := make(chan error, 1)
	go func() { done <- l.client.Process(ctx, cmd) }()
	select {
	case err := <-done:
		return cmd.Val(), l.reloadSlots(ctx, err)
	case <-ctx.Done():
		return nil, errSilent
	}
}

// scriptPage is how many bytes of batches the script reads: what processes miss
// of each other. Of a longer page LRANGE reads the rest, in an eighth of the
// server's time.
const scriptPage = 64 << 10

// extend adds the batches to t that follow those it has, as many as fit a page
// if they are as long as these. If the log was trimmed or lost since t was
// read, or the command fails, it adds none: the next page begins where t ends.
func (l *Ledger) extend(ctx context.Context, account string, t *engine.Tail, page int) {
	ctx, cancel := context.WithTimeout(ctx, l.patience)
	defer cancel()
	size := 0
	for i := range t.Batches {
		size += len(t.Batches[i].Data)
	}
	last := t.Batches[len(t.Batches)-1]
	count := min(uint64(max(0, page-size)*len(t.Batches)/size), t.Position-last.Position)
	from := last.Position - t.First
	elements, err := l.send(ctx, "lrange", l.base(account)+"batches", from, from+count)
	isThisLog := err == nil && len(elements) > 0 && strings.HasSuffix(elements[0], string(last.Data))
	if isThisLog && parseBatches(t, elements[1:], last.Position+1) == nil {
		t.More = t.Batches[len(t.Batches)-1].Position < t.Position
	}
}

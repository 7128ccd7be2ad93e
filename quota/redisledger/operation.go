package redisledger

import (
	"context"
	"crypto/sha1"
	_ "embed"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed lua/layout.lua
var layoutLua string

//go:embed lua/core.lua
var coreLua string

//go:embed lua/plain.lua
var plainLua string

//go:embed lua/common.lua
var commonLua string

//go:embed lua/store.lua
var storeLua string

//go:embed lua/learn.lua
var learnLua string

//go:embed lua/floors.lua
var floorsLua string

//go:embed lua/spend.lua
var spendLua string

//go:embed lua/settle.lua
var settleLua string

//go:embed lua/standings.lua
var standingsLua string

//go:embed lua/entries.lua
var entriesLua string

//go:embed lua/restamp.lua
var restampLua string

//go:embed lua/cooldown.lua
var cooldownLua string

//go:embed lua/recool.lua
var recoolLua string

// script is constant text; data goes beside it.
type script struct {
	text, sha string
	writes    bool // that matter: a lost answer leaves a doubt
}

var (
	learnScript     = newScript(baseLua+learnLua, false)
	spendScript     = newScript(layoutLua+coreLua+plainLua+commonLua+storeLua+floorsLua+spendLua, true)
	settleScript    = newScript(baseLua+settleLua, true)
	standingsScript = newScript(baseLua+standingsLua, false)
	entriesScript   = newScript(baseLua+entriesLua, false)
	restampScript   = newScript(baseLua+restampLua, true)
	cooldownScript  = newScript(baseLua+cooldownLua, true)
	recoolScript    = newScript(baseLua+recoolLua, true)

	baseLua = layoutLua + coreLua + commonLua + storeLua
)

func newScript(text string, writes bool) script {
	sum := sha1.Sum([]byte(text)) // the name that Redis gives it
	return script{text: text, sha: hex.EncodeToString(sum[:]), writes: writes}
}

// operation is one call of the ledger: some scripts, with one deadline.
type operation struct {
	ledger *Ledger
	ctx    context.Context
	doubt  bool // an answer was lost, so something may have been done
	lost   int  // answers
	pause  time.Duration
}

// once is a command that go-redis must not send again by itself: it would, on
// a timeout, and charge twice (measured on v9.23.0, in a cluster too).
type once struct{ *redis.Cmd }

// NoRetry implements redis.Cmder.
func (once) NoRetry() bool { return true }

const (
	firstPause = 10 * time.Millisecond
	lastPause  = 100 * time.Millisecond
	leastTry   = 100 * time.Millisecond // a shorter one would often end in doubt on a busy host
	maxLost    = 5                      // answers of one operation
)

// ask runs a script. All of them may be sent twice. Errors that prove nothing,
// and those that pass, are answered by sending it again within the deadline.
func (o *operation) ask(s *script, keys []string, args []any) (*reply, error) {
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

// after judges an error: it returns nil when the script can be sent again, and
// waits until then. It reports whether an answer was lost.
func (o *operation) after(s *script, err error) (lost bool, _ error) {
	found := judge(err)
	lost = found == unknown
	if lost {
		o.lost++
		o.doubt = o.doubt || s.writes
	}
	pause := max(o.pause, firstPause)
	if found > busy || o.lost >= maxLost || !o.rest(pause) {
		return lost, o.ledger.failed(err, found, o.doubt)
	}
	o.pause = min(2*pause, lastPause)
	return lost, nil
}

// rest waits, if time is left for another try afterwards.
func (o *operation) rest(pause time.Duration) bool {
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

// try sends a script once, within half of the time that is left, so that
// there is some for another try.
func (o *operation) try(s *script, keys []string, args []any) (any, error) {
	ctx := o.ctx
	if deadline, ok := ctx.Deadline(); ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, max(time.Until(deadline)/2, leastTry))
		defer cancel()
	}
	line := make([]any, 3, 3+len(keys)+len(args))
	line[0], line[1], line[2] = "evalsha", s.sha, len(keys)
	for _, key := range keys {
		line = append(line, key)
	}
	line = append(line, args...)
	value, err := o.ledger.send(ctx, line)
	if err != nil && strings.HasPrefix(err.Error(), "NOSCRIPT") {
		whole := append([]any(nil), line...)
		whole[0], whole[1] = "eval", s.text
		value, err = o.ledger.send(ctx, whole)
	}
	return value, err
}

// errSilent means that a client given to New did not return in time.
var errSilent = errors.New("no answer in time")

// send sends one command. A client that is not ours may heed no deadline, so
// it is left behind when the time is up.
func (l *Ledger) send(ctx context.Context, line []any) (any, error) {
	if l.own {
		cmd := redis.NewCmd(ctx, line...)
		err := l.client.Process(ctx, once{cmd})
		return cmd.Val(), err
	}
	type result struct {
		value any
		err   error
	}
	done := make(chan result, 1)
	go func() {
		cmd := redis.NewCmd(ctx, line...)
		err := l.client.Process(ctx, once{cmd})
		done <- result{cmd.Val(), err}
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return nil, errSilent
	}
}

// reply reads a script's answer value by value. What is not there, or of
// another kind, makes it bad.
type reply struct {
	values []any
	bad    bool
}

func newReply(value any) *reply {
	if values, ok := value.([]any); ok {
		return &reply{values: values}
	}
	return &reply{values: []any{value}}
}

func (r *reply) more() bool { return len(r.values) > 0 }

func (r *reply) next() any {
	if len(r.values) == 0 {
		r.bad = true
		return nil
	}
	value := r.values[0]
	r.values = r.values[1:]
	return value
}

func (r *reply) number() int64 {
	v, ok := r.next().(int64)
	r.bad = r.bad || !ok
	return v
}

func (r *reply) text() string {
	v, ok := r.next().(string)
	r.bad = r.bad || !ok
	return v
}

package redisledger_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestAdviceIsAboutAnotherFault: the error of a server that is up does not send
// the reader to the network, the sentinels or the password.
func TestAdviceIsAboutAnotherFault(t *testing.T) {
	if testing.Short() {
		t.Skip("waits a second for a ledger that is down")
	}
	server := redistest.Start(t)
	l := fresh(t, server.URL(), nil)
	mustSpend(t, l, "m", 1, day)
	advised := func(kind error, advice string) {
		t.Helper()
		if _, err := spend(t, l, "m", 1, day); !errors.Is(err, kind) || !strings.Contains(err.Error(), "; "+advice) {
			t.Errorf("%v; want %v and %q", err, kind, advice)
		}
	}
	server.Do(t, "config", "set", "maxmemory", "1mb")
	advised(quota.ErrLedgerDown, "its memory is full: raise its maxmemory")
	server.Do(t, "config", "set", "maxmemory", "0")
	server.Do(t, "replicaof", "127.0.0.1", "1")
	advised(quota.ErrLedgerDown, "it is a replica: name the master")
	server.Do(t, "replicaof", "no", "one")
	key := redisledger.LogKey(l, account)
	server.Do(t, "del", key)
	server.Do(t, "set", key, "of another program")
	advised(quota.ErrLedgerConfig, "another program writes these keys")
	for _, test := range []struct {
		err    error
		advice string
	}{
		{redis.Nil, "malformed answer"},
		{answered("MISCONF Errors writing to the AOF file: No space left on device"), "it cannot save its data: free some space"},
		{answered("ERR Error running script (call to f_1): @user_script:1: -OOM command not allowed when used memory > 'maxmemory'."), "its memory is full"},
		{answered("WRONGPASS invalid username-password pair or user is disabled."), "check the URL, the password"},
		{answered("NOAUTH Authentication required."), "it wants a password"},
		{answered("ERR Protocol error: unauthenticated multibulk length"), "it wants a password"},
		{answered("redis: all sentinels specified in configuration are unreachable: ERR unknown command 'sentinel', with args beginning with: 'get-master-addr-by-name' 'main' "), "this server is not a sentinel"},
		{answered("ERR unknown command `EVALSHA`, with args beginning with: `0b` `3` "), "this server runs no scripts: if it is a sentinel, write redis+sentinel://"},
		{answered("ERR DB index is out of range"), "this server has fewer databases"},
		{errors.New("EOF"), "see that it is up"},
	} {
		if text := redisledger.Explain(test.err); !strings.Contains(text, "; "+test.advice) {
			t.Errorf("%s; want %q", text, test.advice)
		}
	}
}

// answered is an error that a server sent.
type answered string

func (a answered) Error() string { return string(a) }
func (answered) RedisError()     {}

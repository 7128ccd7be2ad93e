package redisledger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestGarbledAnswersAreErrors: every method returns an error for a malformed
// answer, never a grant.
func TestGarbledAnswersAreErrors(t *testing.T) {
	l, hook, charges := garbled(t)
	receipt := mustSpend(t, l, "m", 1, charges...)
	for _, value := range []any{nil, int64(0), int64(9), "", "\x00", "\x07", strings.Repeat("\x00", 12), strings.Repeat("\x00", 8) + "\x01" + strings.Repeat("\x00", 40), strings.Repeat("\xff", 60), "\x00" + strings.Repeat("\x01", 40),
		[]any{}, []any{int64(9)}, []any{"x"}, []any{int64(0), "x"}, []any{int64(0), int64(1), "x"}} {
		hook.value = nil
		mustSpend(t, l, "m", 1, charges...) // fills the cache, if a malformed answer emptied it
		hook.value = func(any) any { return value }
		answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, Requests: []quota.Request{{Method: "m", Units: 1, Charges: charges}}})
		if !errors.Is(err, quota.ErrInDoubt) {
			t.Errorf("spend, %#v: %+v, %v; want ErrInDoubt", value, answers, err)
		}
		if _, err := l.Standings(t.Context(), account, "", charges); err == nil {
			t.Errorf("standings, %#v: no error", value)
		}
		if _, err := l.Restamp(t.Context(), account, ""); err == nil {
			t.Errorf("restamp, %#v: no error", value)
		}
		hook.value = nil
		mustSpend(t, l, "m", 1, charges...) // so that what is garbled is the settle's own answer
		hook.value = func(any) any { return value }
		if err := l.Settle(t.Context(), receipt, 1); err == nil && value != int64(0) && fmt.Sprint(value) != "[0 x]" && fmt.Sprint(value) != "[0 1 x]" {
			t.Errorf("settle, %#v: no error", value)
		}
		var listed error
		for _, err := range l.Entries(t.Context(), quota.Query{Account: account}) {
			listed = err
		}
		if listed == nil && value != int64(0) {
			t.Errorf("entries, %#v: no error", value)
		}
	}
	hook.value = nil
	mustSpend(t, l, "m", 1, charges...)
}

// TestCutAnswerIsAGrant: an answer that is cut at any position, or longer than
// it should be, leaves a spend in doubt.
func TestCutAnswerIsAGrant(t *testing.T) {
	l, hook, charges := garbled(t)
	mustSpend(t, l, "m", 1, charges...)
	for cut := range 40 {
		hook.value = func(value any) any {
			text, ok := value.(string)
			if !ok || cut >= len(text) {
				return value
			}
			return text[:cut]
		}
		_, err := l.Spend(t.Context(), &quota.Batch{Account: account, Requests: []quota.Request{{Method: "m", Units: 1, Charges: charges}}})
		if !errors.Is(err, quota.ErrInDoubt) {
			t.Errorf("cut after %d bytes: %v; want ErrInDoubt", cut, err)
		}
	}
	hook.value = func(value any) any {
		if text, ok := value.(string); ok {
			return text + "\x00"
		}
		return value
	}
	if _, err := l.Spend(t.Context(), &quota.Batch{Account: account, Requests: []quota.Request{{Method: "m", Units: 1, Charges: charges}}}); !errors.Is(err, quota.ErrInDoubt) {
		t.Errorf("a byte more: %v; want ErrInDoubt", err)
	}
	hook.value = nil
	mustSpend(t, l, "m", 1, charges...)
}

// garbled returns a ledger whose answers the hook changes, and charges of
// several kinds.
func garbled(t *testing.T) (*redisledger.Ledger, *garbler, []*quota.Charge) {
	t.Helper()
	server := redistest.Start(t)
	hook := &garbler{}
	given := redis.NewClient(&redis.Options{Addr: server.Addr})
	given.AddHook(hook)
	t.Cleanup(func() { _ = given.Close() })
	l := redisledger.New(given, &redisledger.Options{Prefix: "garbled", Now: noonUTC})
	floored := charge("floored", 1e6, quota.Daily(time.UTC))
	floored.Floors, floored.FloorUntil = []quota.Floor{{Coverage: quota.NewCoverage(quota.Coverage{Regions: []string{"IN"}}), Units: 5}}, time.Hour
	return l, hook, []*quota.Charge{day, perMinute, floored}
}

// garbler changes the answers of scripts.
type garbler struct{ value func(any) any }

func (h *garbler) DialHook(next redis.DialHook) redis.DialHook { return next }

func (h *garbler) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (h *garbler) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if c, ok := cmd.(interface{ SetVal(any) }); ok && err == nil && h.value != nil {
			c.SetVal(h.value(c.(interface{ Val() any }).Val()))
		}
		return err
	}
}

package replica

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// TestWrongTimestampsAreCopiedAsCorrected: a clock record is about one log.
func TestWrongTimestampsAreCopiedAsCorrected(t *testing.T) {
	from, to := memory("memory:from"), memory("memory:to")
	now := time.Now().UnixMicro()
	source := newLog(from.connect(), "", project)
	add := func(r *engine.Record) {
		t.Helper()
		a := &engine.Append{Any: true}
		if _, err := source.append(t.Context(), a, []*engine.Record{r}); err != nil {
			t.Fatal(err)
		}
		if err := source.read(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
	}
	add(&engine.Record{Kind: engine.KindGrant, Amounts: engine.Amounts{Units: 5, Calls: 1}})
	add(&engine.Record{Kind: engine.KindCooldown, Until: now + 3600e6})
	add(&engine.Record{Kind: engine.KindClock, Value: now - 3600e6, Until: now - 7200e6})
	c := copyOf(from, to)
	if _, err := c.Move(t.Context(), project); err != nil {
		t.Fatal(err)
	}
	was, _ := counted(t, c.From)
	is, _ := counted(t, c.To)
	if diff := cmp.Diff(was, is); diff != "" {
		t.Error(diff)
	}
	for e := range maps.Values(is) {
		if e.At != now-7200e6 {
			t.Errorf("%+v; want it corrected", e)
		}
	}
}

// TestALedgerThatIsEmptiedWhileItIsCopiedIsLost: what its calls have cost since
// cannot be copied any more.
func TestALedgerThatIsEmptiedWhileItIsCopiedIsLost(t *testing.T) {
	from := memory("memory:from")
	granted(t, engine.New(from.connect(), nil), budget(100))
	m, err := copyOf(from, memory("memory:to")).Move(t.Context(), project)
	if err != nil {
		t.Fatal(err)
	}
	m.account.from.ledger = memory("memory:from").connect()
	if err := m.Follow(t.Context()); !errors.Is(err, quota.ErrLedgerLost) {
		t.Errorf("%v; want ErrLedgerLost", err)
	}
}

// TestACopyThatIsRefusedChangesNothing names the reason, and changes nothing.
func TestACopyThatIsRefusedChangesNothing(t *testing.T) {
	used := func(s store) store { granted(t, engine.New(s.connect(), nil), budget(100)); return s }
	moved := func(s store, name, text string) store {
		t.Helper()
		l := newLog(s.connect(), "", project)
		if err := l.read(t.Context(), nil); err != nil {
			t.Fatal(err)
		}
		if ok, err := l.setMoved(t.Context(), name, text); !ok || err != nil {
			t.Fatal(ok, err)
		}
		return s
	}
	fresh := func(name string) store { return used(memory(name)) }
	same := fresh("a")
	ahead := store{"b", func() engine.Ledger { return clocked{memory("b").connect()} }}
	for _, test := range []struct {
		name     string
		from, to store
		want     string
	}{
		{"used", fresh("a"), fresh("b"), "b holds 2 units and 1 call of it already; name an empty ledger"},
		{"itself", same, same, "from a to itself; name another ledger"},
		{"other names", same, store{"b", same.connect}, "a and b are the same ledger"},
		{"left", moved(fresh("a"), "", "c"), memory("b"), "it has moved from a to c already; copy it from there"},
		{"arriving", moved(fresh("a"), engine.Arriving, "c"), memory("b"), "that one first (ration ledger copy c a)"},
		{"to left", fresh("a"), moved(memory("b"), "", "c"), "it has moved from b to c; copy it from there"},
		{"to arriving", fresh("a"), moved(memory("b"), engine.Arriving, "c"),
			"complete that one (ration ledger copy c b)"},
		{"clock", fresh("a"), ahead, "correct the one that is wrong"},
	} {
		t.Run(test.name, func(t *testing.T) {
			c := copyOf(test.from, test.to)
			before := fmt.Sprint(records(t, c.From), records(t, c.To))
			_, planErr := c.Plan(t.Context(), project)
			_, err := c.Move(t.Context(), project)
			for _, err := range []error{planErr, err} {
				if !errors.Is(err, engine.ErrLedgerConfig) || !strings.Contains(fmt.Sprint(err), test.want) {
					t.Errorf("%v; want %s", err, test.want)
				}
			}
			if fmt.Sprint(records(t, c.From), records(t, c.To)) != before {
				t.Error("it was changed")
			}
		})
	}
}

// TestALedgerUnderTwoNamesIsRecognized is recognized once it has a log, and
// stays open.
func TestALedgerUnderTwoNamesIsRecognized(t *testing.T) {
	s := memory("a")
	_, err := copyOf(s, store{"b", s.connect}).Move(t.Context(), project)
	if !strings.Contains(fmt.Sprint(err), "same ledger") {
		t.Errorf("%v; want that they are the same ledger", err)
	}
	granted(t, engine.New(s.connect(), nil), budget(10))
	if _, err := copyOf(memory("a"), s).Accounts(t.Context(), []string{"known"}); !errors.Is(err, ErrEmpty) {
		t.Errorf("%v; want ErrEmpty", err)
	}
}

// clocked is a ledger whose clock is five minutes ahead.
type clocked struct{ engine.Ledger }

func (c clocked) Read(ctx context.Context, account string, r *engine.Read) (*engine.Tail, error) {
	t, err := c.Ledger.Read(ctx, account, r)
	if err == nil {
		t.Now += 300e6
	}
	return t, err
}

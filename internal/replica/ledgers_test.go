package replica

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota/memledger"
	"github.com/ration-dev/ration/quota/redisledger"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

const project = "my-project"

// store is a ledger that processes connect to.
type store struct {
	name    string
	connect func() engine.Ledger
}

// memory returns a store in memory.
func memory(name string) store {
	l := memledger.Open(nil)
	return store{name, func() engine.Ledger { return l }}
}

// makers make empty stores.
func makers(t *testing.T) map[string]func(*testing.T) store {
	server := servers.StartRedis(t)
	var made atomic.Int64
	closed := func(t *testing.T, l engine.Ledger, err error) engine.Ledger {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	return map[string]func(*testing.T) store{
		"memory": func(*testing.T) store { return memory(fmt.Sprint("memory:", made.Add(1))) },
		"SQLite": func(t *testing.T) store {
			path := filepath.Join(t.TempDir(), "ration.db")
			return store{"sqlite:" + path, func() engine.Ledger {
				l, err := sqliteledger.Open(path, &sqliteledger.Options{Sync: sqliteledger.Normal})
				return closed(t, l, err)
			}}
		},
		"Redis": func(t *testing.T) store {
			prefix := fmt.Sprint("test", made.Add(1))
			return store{server.URL() + "#" + prefix, func() engine.Ledger {
				l, err := redisledger.Open(server.URL(), &redisledger.Options{Prefix: prefix})
				return closed(t, l, err)
			}}
		},
	}
}

func budget(limit int64) *engine.Budget {
	day := engine.Window{Kind: engine.Sliding, Length: (24 * time.Hour).Microseconds()}
	return &engine.Budget{Name: "day", Limit: limit, Window: day}
}

func copyOf(from, to store) *Copy {
	return &Copy{From: from.connect(), To: to.connect(), FromName: from.name, ToName: to.name}
}

// spend asks for one call of 2 units.
func spend(t testing.TB, e *engine.Engine, b *engine.Budget) *engine.Answer {
	t.Helper()
	answer, err := trySpend(t.Context(), e, b)
	if err != nil {
		t.Fatal(err)
	}
	return answer
}

func trySpend(ctx context.Context, e *engine.Engine, b *engine.Budget) (*engine.Answer, error) {
	answers, err := e.Account(project).Spend(ctx, &engine.Request{Budgets: []*engine.Budget{b},
		Labels: engine.Labels{Method: "search.list", Region: "IN"}, Amounts: engine.Amounts{Units: 2, Calls: 1}})
	if err != nil {
		return nil, err
	}
	return answers[0], nil
}

// granted returns the id of a call that must be granted.
func granted(t testing.TB, e *engine.Engine, b *engine.Budget) engine.ID {
	t.Helper()
	answer := spend(t, e, b)
	if answer.Refusal != nil {
		t.Fatalf("refused: %+v", answer.Refusal)
	}
	return answer.IDs[0]
}

// checkMoved checks that calls are told an address.
func checkMoved(t testing.TB, s store, name, address string) {
	t.Helper()
	answer := spend(t, engine.New(s.connect(), nil), budget(1000))
	if r := answer.Refusal; r == nil || r.Moved == nil || r.Moved.Text != address || r.Moved.Name != name {
		t.Errorf("%s answers %+v; want %s %s", s.name, r, name, address)
	}
}

// records returns all records of a log but those that are not copied, each
// once.
func records(t testing.TB, l engine.Ledger) map[engine.ID]engine.Record {
	t.Helper()
	all := map[engine.ID]engine.Record{}
	err := newLog(l, "", project).read(t.Context(), func(r *engine.Record) error {
		if isCopied(r.Kind) {
			all[r.ID] = *r
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// counted returns the entries of a log by their ids, as its processes count
// them.
func counted(t testing.TB, l engine.Ledger) (entries map[engine.ID]engine.Entry, units int64) {
	t.Helper()
	entries = map[engine.ID]engine.Entry{}
	err := engine.New(l, nil).Account(project).View(t.Context(), func(v *engine.View) {
		v.Entries(0, engine.Never, false, func(e engine.Entry) bool {
			entries[e.ID] = e
			units += e.Amounts.Units
			return true
		})
	})
	if err != nil {
		t.Fatal(err)
	}
	return entries, units
}

// checkComplete checks that a log has all records of another one, as they are.
func checkComplete(t testing.TB, from, to engine.Ledger) {
	t.Helper()
	had, has := records(t, from), records(t, to)
	for id, r := range had {
		if got, ok := has[id]; !ok || fmt.Sprintf("%+v", got) != fmt.Sprintf("%+v", r) {
			t.Errorf("the new ledger has %+v\nof %+v", got, r)
		}
	}
}

var errLost = errors.New("the test lost it")

// faulty loses an append: it is not sent, or its answers are lost.
type faulty struct {
	engine.Ledger
	left   *atomic.Int64 // appends until then
	isSent bool
}

func (f *faulty) Append(ctx context.Context, account string, a *engine.Append) (*engine.Tail, error) {
	if f.left.Add(-1) >= 0 {
		return f.Ledger.Append(ctx, account, a)
	}
	if !f.isSent {
		return nil, fmt.Errorf("%w: %w", engine.ErrLedgerDown, errLost)
	}
	if _, err := f.Ledger.Append(ctx, account, a); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%w: %w", engine.ErrInDoubt, errLost)
}

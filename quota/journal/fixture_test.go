package journal_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

const fixture = "testdata/first-format"

// writeFixture writes such a journal as the first version that kept one did: a
// call, one settled from 100 to 40 units, one that was refunded, a cooldown,
// and a call that was made while the ledger was down.
func writeFixture(t *testing.T, dir string) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC))
	inner := &faulty{Ledger: memledger.Open(&memledger.Options{Now: clock.Now})}
	inner.fail(nil)
	l := journal.New(inner, dir, fixtureOptions(clock))
	seq := uint64(0)
	ask := func(method string, units quota.Units) quota.Receipt {
		clock.Add(time.Second)
		seq++
		answers, err := l.Spend(t.Context(), &quota.Batch{Account: account, Client: 42, Seq: seq, Requests: []quota.Request{{Method: method, Units: units,
			Caller: quota.Caller{Lane: "cron", Job: "trending", Region: "DE"}, Charges: []*quota.Charge{fixtureCharge}}}})
		if err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
		return answers[0].Receipt
	}
	ask("videos.list", 1)
	settled, refunded := ask("search.list", 100), ask("channels.list", 1)
	must(t, l.Settle(t.Context(), settled, 40))
	must(t, l.Refund(t.Context(), refunded))
	must(t, l.SetCooldown(t.Context(), quota.Cooldown{Account: account, Budget: "searches", Until: clock.Now().Add(2 * time.Hour), Reason: "the upstream said so"}))
	inner.fail(errDown)
	ask("playlists.list", 2)
	must(t, l.Close())
}

var fixtureBudget = quota.Budget{Name: "day", Account: account, Limit: 500, Window: quota.Sliding(24 * time.Hour)}

var fixtureCharge = &quota.Charge{Budget: fixtureBudget.Name, Coverage: quota.NewCoverage(quota.Coverage{}), Limit: fixtureBudget.Limit, Window: fixtureBudget.Window}

func fixtureOptions(clock *ledgertest.Clock) *journal.Options {
	return &journal.Options{Name: "redis://redis.internal:6379/0", Budgets: []quota.Budget{fixtureBudget}, Now: clock.Now,
		Allow: func(quota.Call) quota.Units { return 50 }}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestJournalOfTheFirstFormat: a ledger that has lost everything is restored
// from a journal of the first version that kept one. RATION_WRITE_FIXTURES=1
// writes the journal anew; a change of its bytes means that hosts lose theirs
// at an upgrade.
func TestJournalOfTheFirstFormat(t *testing.T) {
	if os.Getenv("RATION_WRITE_FIXTURES") != "" {
		must(t, os.RemoveAll(fixture))
		writeFixture(t, fixture)
	}
	dir := filepath.Join(t.TempDir(), "journal")
	must(t, os.CopyFS(dir, os.DirFS(fixture)))
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 22, 12, 5, 0, 0, time.UTC))
	down := journal.New(failing(errDown), dir, fixtureOptions(clock))
	unrecorded(t, down, 2)
	searches := *fixtureCharge
	searches.Budget = "searches"
	answers, err := down.Spend(t.Context(), &quota.Batch{Account: account, Requests: []quota.Request{{Method: "search.list", Units: 1, Charges: []*quota.Charge{&searches}}}})
	if err != nil || !errors.Is(answers[0].Err, quota.ErrRefused) {
		t.Errorf("in a cooldown, while the ledger is down: %v, %v; want a refusal", answers, err)
	}
	must(t, down.Close())

	inner := memledger.Open(&memledger.Options{Now: clock.Now})
	l := journal.New(inner, dir, fixtureOptions(clock))
	defer l.Close()
	if _, err := spend(t.Context(), l, "videos.list", 1); err != nil {
		t.Fatal(err)
	}
	standings, err := l.Standings(t.Context(), account, "", []*quota.Charge{fixtureCharge})
	if err != nil || standings[0].Used != 1+40+2+1 {
		t.Fatalf("%+v, %v; want 44 units in use: what was settled is nobody else's", standings, err)
	}
	unrecorded(t, l, 0)
	type line struct {
		At     string
		Method string
		Units  quota.Units
		Region string
	}
	var got []line
	for e, err := range inner.Entries(t.Context(), quota.Query{Account: account}) {
		must(t, err)
		got = append(got, line{e.At.UTC().Format(time.TimeOnly), e.Method, e.Units, e.Caller.Region})
	}
	want := []line{
		{"12:00:01", "videos.list", 1, "DE"}, {"12:00:02", "search.list", 40, "DE"}, {"12:00:03", "channels.list", 0, "DE"}, {"12:00:04", "playlists.list", 2, "DE"}, {"12:05:00", "videos.list", 1, ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

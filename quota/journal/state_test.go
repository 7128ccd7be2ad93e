package journal

import (
	"context"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/filelock"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestEarlierLifeHeldLaterGrants: a life of the log that ended before a grant
// would be taken for one that counted it, and so would a life that was left
// without the ledger before the outage was restored.
func TestEarlierLifeHeldLaterGrants(t *testing.T) {
	s := newState()
	for i, epoch := range []uint64{1, 2, 2, 0, 2, 2} {
		r := record{kind: granted, at: int64(100 * (i + 1)), id: quota.ID{Client: 5, Seq: uint64(i + 1)}, epoch: epoch, units: 1, calls: 1}
		if epoch == 0 {
			r.kind = owed
		}
		s.apply(&r)
		if i == 4 { // the ledger was back for one process before it was restored
			s.apply(&record{kind: restored, at: r.at})
		}
	}
	got := map[quota.ID]map[uint64]int64{}
	for _, life := range s.stays().lives(9) {
		id := quota.ID{Client: life.Client, Seq: life.Seq}
		if got[id] == nil {
			got[id] = map[uint64]int64{}
		}
		got[id][life.Epoch] = life.Since.UnixMicro()
	}
	want := map[quota.ID]map[uint64]int64{
		{Client: 9}:         {1: 100, 2: 200},
		{Client: 5}:         {1: 100, 2: 200}, // the first grant
		{Client: 5, Seq: 2}: {2: 200},
		{Client: 5, Seq: 4}: {2: 600}, // of the outage, which the sixth grant counted
		{Client: 5, Seq: 5}: {2: 200}, // granted before the outage was restored
		{Client: 5, Seq: 6}: {2: 600},
	}
	if !maps.EqualFunc(got, want, maps.Equal[map[uint64]int64, map[uint64]int64]) {
		t.Errorf("%v; want %v", got, want)
	}
}

// gapped is a ledger that knows a gap of a log.
type gapped struct {
	quota.Ledger
	gaps []quota.Gap
	told [][]quota.Gap // by restorations
}

func (g *gapped) Restore(ctx context.Context, r *quota.Restoration) (quota.RestoreResult, error) {
	g.told = append(g.told, r.Gaps)
	done, err := g.Ledger.Restore(ctx, r)
	done.Gaps = g.gaps
	return done, err
}

// TestGapIsForgotten: a log that is lost takes with it what it knew of gaps, so
// each host that has restored it keeps them, as long as its grants.
func TestGapIsForgotten(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.FixedZone("", 3600))
	clock := func() time.Time { return now }
	gaps := []quota.Gap{{Epoch: 7, To: now.Add(-time.Hour)}, {Epoch: 8, From: now.Add(-2 * time.Hour), To: now.Add(-time.Hour), Until: now}}
	inner, dir := &gapped{gaps: gaps}, filepath.Join(t.TempDir(), "journal")
	for range 5 { // each a new process, and the last four restore
		inner.Ledger = memledger.Open(&memledger.Options{Now: clock})
		l := New(inner, dir, &Options{Now: clock})
		charge := &quota.Charge{Budget: "day", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: 9, Window: quota.Sliding(24 * time.Hour)}
		answers, err := l.Spend(t.Context(), &quota.Batch{Account: "a", Client: 1, Seq: 1, Requests: []quota.Request{{Method: "m", Units: 1, Charges: []*quota.Charge{charge}}}})
		if err := errors.Join(err, l.Close()); err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
		now = now.Add(16 * time.Hour)
	}
	if len(inner.told) != 4 || len(inner.told[0]) != 0 || len(inner.told[3]) != 0 {
		t.Fatalf("%v; want gaps in the second and third restoration", inner.told)
	}
	for _, told := range inner.told[1:3] {
		if !slices.EqualFunc(told, gaps, decide.SameGap) {
			t.Errorf("%v; want %v", told, gaps)
		}
	}
}

// TestRefusalSaysAll: what a refusal says of a budget is kept whole, although
// it is above the limit of the file that was refused, and of any. It can be
// what hosts have spent in two lives of the log, which one of them has
// restored.
func TestRefusalSaysAll(t *testing.T) {
	for _, c := range []struct{ granted, refused, limit quota.Units }{{420, 500, 500}, {420, 550, 500}, {420, 430, 125}, {80, 430, 125}} {
		s := newState()
		s.apply(&record{kind: granted, at: 100, id: quota.ID{Client: 5, Seq: 1}, epoch: 1, units: 1, calls: 1, heard: []use{{"day", c.granted}}})
		s.apply(&record{kind: refused, at: 200, epoch: 1, units: c.limit, heard: []use{{"day", c.refused}}})
		if h := s.heard[subject{"day", 1}]; h.used != c.refused || h.at != 200 {
			t.Errorf("granted at %d, refused at %d of %d: heard %d at %d; want all, at 200", c.granted, c.refused, c.limit, h.used, h.at)
		}
	}
}

// TestNotesGrowWithEachLoss: what hosts heard of each other's notes was noted
// again after each loss, until a restoration said more than a log can hold and
// failed, as did each call after it.
func TestNotesGrowWithEachLoss(t *testing.T) {
	budget := quota.Budget{Account: "a", Name: "day", Limit: 500, Window: quota.Sliding(window)}
	l := New(memledger.Open(nil), t.TempDir(), &Options{Budgets: []quota.Budget{budget}})
	defer l.Close()
	s := newState()
	for life, used := range []quota.Units{700, 7_000, quota.MaxLimit + 1} {
		s.apply(&record{kind: refused, at: l.now().UnixMicro(), epoch: uint64(life + 1), units: 500, heard: []use{{"day", used}}})
	}
	all := l.heard(l.account("a"), s, s.stays(), 1)
	if err := (&quota.Restoration{Account: "a", Heard: all}).Check(); err != nil || len(all) != 3 {
		t.Errorf("%v of %d lives; want none of three", err, len(all))
	}
	for _, h := range all {
		if h.Used > 10*budget.Limit || h.Epoch == 1 && h.Used != 700 {
			t.Errorf("life %d held %d; want ten limits at most, and less if less was heard", h.Epoch, h.Used)
		}
	}
}

// TestWhatKeepsARestorationFails: a restoration that another process of the
// host is busy with failed as if it could never be done, and so did one whose
// files are in the way.
func TestWhatKeepsARestorationFails(t *testing.T) {
	restorePatience = 10 * time.Millisecond
	t.Cleanup(func() { restorePatience = 30 * time.Second })
	dir := t.TempDir()
	l := New(memledger.Open(nil), dir, nil)
	defer l.Close()
	a := l.account("a")
	restore := func() error { return l.restore(t.Context(), a, &quota.ForgottenError{}, time.Time{}) }
	if err := restore(); err != nil {
		t.Fatal(err)
	}
	other, err := filelock.Open(a.files.lockPath())
	if err != nil || other.Lock(t.Context()) != nil {
		t.Fatal(err)
	}
	if err := restore(); !errors.Is(err, quota.ErrLedgerBusy) {
		t.Errorf("%v while another process restores; want ErrLedgerBusy", err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(dir, clientFile), 0); err != nil {
		t.Fatal(err)
	}
	if err := restore(); err != nil {
		t.Errorf("%v after the number was lost; want a new one", err)
	}
}

// unanswering is a ledger that restores, and says these errors first.
type unanswering struct {
	quota.Ledger
	says []error
}

func (u *unanswering) Restore(ctx context.Context, r *quota.Restoration) (quota.RestoreResult, error) {
	done, err := u.Ledger.Restore(ctx, r)
	if err == nil && len(u.says) > 0 {
		done, err = quota.RestoreResult{}, u.says[0]
		u.says = u.says[1:]
	}
	return done, err
}

// TestUnansweredRestorationIsSilent: a ledger restores what it has forgotten,
// and its answer is lost. A later try finds nothing to do, and nothing was
// reported.
func TestUnansweredRestorationIsSilent(t *testing.T) {
	for name, says := range map[string][]error{"at once": {quota.ErrInDoubt}, "after another error": {quota.ErrInDoubt, quota.ErrLedgerBusy}} {
		t.Run(name, func(t *testing.T) { restoreUnanswered(t, says) })
	}
}

func restoreUnanswered(t *testing.T, says []error) {
	inner, dir := &unanswering{Ledger: memledger.Open(nil)}, t.TempDir()
	var reports []string
	spend := func() error {
		l := New(inner, dir, &Options{Report: func(err error) { reports = append(reports, err.Error()) }})
		charge := &quota.Charge{Budget: "day", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: 9, Window: quota.Sliding(24 * time.Hour)}
		batch := &quota.Batch{Account: "a", Client: quota.NewClient(), Seq: 1, Requests: []quota.Request{{Method: "m", Units: 1, Charges: []*quota.Charge{charge}}}}
		_, err := l.Spend(t.Context(), batch)
		for range 3 {
			if err != nil {
				_, err = l.Spend(t.Context(), batch)
			}
		}
		return errors.Join(err, l.Close())
	}
	if err := spend(); err != nil || len(reports) > 0 {
		t.Fatal(reports, err)
	}
	inner.Ledger, inner.says = memledger.Open(nil), says
	if err := spend(); err != nil {
		t.Fatal(err)
	}
	if len(reports) != 1 || !strings.Contains(reports[0], "but the answer that said how much was lost") {
		t.Errorf("%q; want one report of a restoration", reports)
	}
}

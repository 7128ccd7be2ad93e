package journal_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/journal"
)

// TestDoubtsCountWithinTheAllowance: a call that was in doubt when its ledger
// went down was granted when it was repeated by its id afterwards, and the
// allowance had granted its room to another.
func TestDoubtsCountWithinTheAllowance(t *testing.T) {
	o := newOutage(t, 100, 80)
	g := o.process()
	if n, err := calls(g, 60); n != 60 {
		t.Fatal(n, err)
	}
	call := quota.Call{Account: account, Method: "m", Units: 1, ID: quota.ID{Client: quota.NewClient(), Seq: 1}}
	in := o.processOn(doubtful{o.faulty})
	if _, err := in.Spend(t.Context(), call); !errors.Is(err, quota.ErrInDoubt) {
		t.Fatal(err)
	}
	o.fail(errDown)
	sent, err := calls(g, 100)
	if sent != 39 {
		t.Errorf("%d granted within the allowance, %v; want 39, as the 40th may be granted already", sent, err)
	}
	if _, err := g.Spend(t.Context(), call); err != nil {
		t.Errorf("repeated within the allowance: %v", err)
	}
	o.fail(nil)
	again := o.process()
	if _, err := again.Spend(t.Context(), call); err != nil {
		t.Errorf("repeated: %v", err)
	}
	if n, err := calls(again, 10); n != 0 || !errors.Is(err, quota.ErrRefused) {
		t.Errorf("%d more, %v; want none", n, err)
	}
}

// doubtful is a ledger whose answers are lost.
type doubtful struct{ quota.Ledger }

func (d doubtful) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	if _, err := d.Ledger.Spend(ctx, batch); err != nil {
		return nil, err
	}
	return nil, quota.ErrInDoubt
}

// doubt leaves a call in doubt.
func (o *outage) doubt(call quota.Call) {
	o.Helper()
	if _, err := o.processOn(doubtful{o.faulty}).Spend(o.Context(), call); !errors.Is(err, quota.ErrInDoubt) {
		o.Fatal(err)
	}
}

// TestDoubtsCountOnce: how much of a limit of 100, and of an allowance of 80,
// is left once the ledger is down.
func TestDoubtsCountOnce(t *testing.T) {
	call := quota.Call{Account: account, Method: "m", Units: 1, ID: quota.ID{Client: quota.NewClient(), Seq: 1}}
	for name, test := range map[string]struct {
		until func(o *outage)
		want  int
	}{
		"granted before": {func(o *outage) {
			_, err := o.process().Spend(o.Context(), call)
			must(o.T, err)
			o.doubt(call)
		}, 40},
		"another's id": {func(o *outage) {
			o.doubt(call)
			o.fail(errDown)
			other := call
			other.Method, other.Units = "n", 30
			if _, err := o.process().Spend(o.Context(), other); !errors.Is(err, quota.ErrReused) {
				o.Errorf("%v; want ErrReused", err)
			}
		}, 40},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOutage(t, 100, 80)
			if n, err := calls(o.process(), 59); n != 59 {
				t.Fatal(n, err)
			}
			test.until(o)
			o.fail(errDown)
			o.spends(o.process(), test.want)
		})
	}
}

// TestUnsentCallsAreNotInDoubt: a call that can never be granted shares a batch
// whose answer is lost. It is refused before the batch is sent.
func TestUnsentCallsAreNotInDoubt(t *testing.T) {
	o := newOutage(t, 100, 80)
	day := &quota.Charge{Budget: "day", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: 100, Window: quota.Sliding(24 * time.Hour)}
	batch := &quota.Batch{Account: account}
	for _, units := range []quota.Units{1, 101} {
		batch.Requests = append(batch.Requests, quota.Request{Method: "m", Units: units, Charges: []*quota.Charge{day}})
	}
	j := journal.New(doubtful{o.faulty}, o.dir, &journal.Options{Budgets: o.budgets()})
	if _, err := j.Spend(t.Context(), batch); !errors.Is(err, quota.ErrInDoubt) {
		t.Fatal(err)
	}
	o.fail(errDown)
	o.spends(o.process(), 80)
}

// TestDoubtOfAHostThatIsBehind: a call in doubt is newer than what was heard
// before, although the clock of the host, which was only refused, says
// otherwise.
func TestDoubtOfAHostThatIsBehind(t *testing.T) {
	o := newOutage(t, 100, 80)
	if n, err := calls(o.stranger(100, ""), 98); n != 98 {
		t.Fatal(n, err)
	}
	o.now = func() time.Time { return time.Now().Add(-time.Minute) }
	if _, err := o.process().Spend(t.Context(), quota.Call{Account: account, Method: "m", Units: 3}); !errors.Is(err, quota.ErrRefused) {
		t.Fatal(err)
	}
	o.doubt(quota.Call{Account: account, Method: "m", Units: 1})
	o.fail(errDown)
	o.spends(o.process(), 1)
}

// TestDoubtOutlivesAFailedGrant: a call in doubt is repeated within the
// allowance, and its grant cannot be written. Its room is still in doubt.
func TestDoubtOutlivesAFailedGrant(t *testing.T) {
	o := newOutage(t, 100, 80)
	if n, err := calls(o.process(), 98); n != 98 {
		t.Fatal(n, err)
	}
	call := quota.Call{Account: account, Method: "m", Units: 1, ID: quota.ID{Client: quota.NewClient(), Seq: 1}}
	o.doubt(call)
	o.fail(errDown)
	o.now = func() time.Time { return time.Now().Add(time.Hour) } // the journal begins another file
	files, err := filepath.Glob(filepath.Join(o.dir, "*.journal"))
	must(t, err)
	next := files[0][:strings.LastIndex(files[0], "-")+1] + strconv.FormatInt(o.now().Unix()/3600, 10) + ".journal"
	asked := 0
	j := journal.New(o.faulty, o.dir, &journal.Options{Budgets: o.budgets(), Now: o.now, Allow: func(quota.Call) quota.Units {
		if asked++; asked == 2 { // the journal was read
			must(t, os.Mkdir(next, 0o700))
		}
		return o.allow
	}})
	g, err := quota.NewGuard(j, o.budgets(), nil)
	must(t, err)
	if _, err := g.Spend(t.Context(), call); !errors.Is(err, quota.ErrLedgerDown) || asked < 2 {
		t.Fatalf("asked %d times, %v; want a grant that cannot be written", asked, err)
	}
	must(t, os.Remove(next))
	o.spends(g, 1)
}

package engine_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota/memledger"
)

// swappedLedger is a ledger that another one can take the place of.
type swappedLedger struct{ engine.Ledger }

// TestAProcessThatTheTrimmingHasOvertakenRestoresWhatTheLogLacks: an older copy
// is used, and then replaced by the log that it was made of, which has trimmed
// the positions that the process knows of the copy.
func TestAProcessThatTheTrimmingHasOvertakenRestoresWhatTheLogLacks(t *testing.T) {
	for _, trim := range []uint64{1, 2, 6} {
		t.Run(fmt.Sprint("trim=", trim), func(t *testing.T) { testOvertaken(t, trim) })
	}
}

// testOvertaken lets a process with one batch meet a log of ten, of which some
// are trimmed.
func testOvertaken(t *testing.T, trim uint64) {
	ledger := &swappedLedger{memledger.Open(nil)}
	a := engine.New(ledger, nil).Account(account)
	day := sliding("day", 100, 24*time.Hour)
	request := &engine.Request{Amounts: engine.Amounts{Units: 5, Calls: 1}, Budgets: []*engine.Budget{day}}
	if _, err := a.Spend(t.Context(), request); err != nil {
		t.Fatal(err)
	}
	var epoch uint64
	if err := a.View(t.Context(), func(v *engine.View) { epoch = v.Epoch() }); err != nil {
		t.Fatal(err)
	}
	other, known := memledger.Open(nil), engine.Known{}
	for i := range 10 {
		id := engine.ID{Client: 1, Seq: uint64(i + 1)}
		grant := &engine.Record{Kind: engine.KindGrant, ID: id, Amounts: engine.Amounts{Units: 1, Calls: 1}}
		data := engine.Pack(id, []*engine.Record{grant})
		tail, err := other.Append(t.Context(), account, &engine.Append{
			Known: known, NewEpoch: epoch, Any: true,
			Data: data, Count: 1, Trim: min(trim, uint64(i))})
		if err != nil || !tail.Appended {
			t.Fatalf("%+v, %v", tail, err)
		}
		known = engine.Known{Epoch: epoch, After: tail.Position, Tag: (&engine.Batch{Data: data}).Tag()}
	}
	ledger.Ledger = other
	var used int64
	for _, a := range []*engine.Account{a, engine.New(ledger, nil).Account(account)} {
		if err := a.View(t.Context(), func(v *engine.View) { used = v.Held(day, "").Used }); err != nil {
			t.Fatal(err)
		}
	}
	if want := 5 + 10 - int64(trim); used != want {
		t.Errorf("%d units are used, want %d: 5 of the process and what the log had kept", used, want)
	}
}

// TestALedgerWhoseClockJumpsAheadFreesNothingEarly: a process that does not
// know what another one was granted must not be granted what returns in an
// hour.
func TestALedgerWhoseClockJumpsAheadFreesNothingEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ahead := time.Duration(0)
		ledger := memledger.Open(&memledger.Options{Now: func() time.Time { return time.Now().Add(ahead) }})
		hour := sliding("hour", 10, time.Hour)
		spend := func(e *engine.Engine, units int64) bool {
			answers, err := e.Account(account).Spend(context.Background(), &engine.Request{
				Amounts: engine.Amounts{Units: units, Calls: 1}, Budgets: []*engine.Budget{hour}})
			if err != nil {
				t.Fatal(err)
			}
			return answers[0].Refusal == nil
		}
		first, second := engine.New(ledger, nil), engine.New(ledger, nil)
		if !spend(first, 6) || !spend(first, 3) || !spend(second, 1) {
			t.Fatal("a call within the limit was refused")
		}
		time.Sleep(20 * time.Minute)
		ahead = time.Hour
		if spend(first, 1) {
			t.Error("11 units were granted in an hour, in which the limit is 10")
		}
	})
}

// TestAShorterHorizonNeverTrimsWhatALongerOneNeeds: the process with the
// shorter one announces it later, in an append that is made before it reads.
func TestAShorterHorizonNeverTrimsWhatALongerOneNeeds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ledger := memledger.Open(&memledger.Options{Now: time.Now})
		day, hour := sliding("day", 1000, 24*time.Hour), sliding("hour", 1000, time.Hour)
		spend := func(a *engine.Account, b *engine.Budget) engine.ID {
			answers, err := a.Spend(context.Background(), &engine.Request{
				Amounts: engine.Amounts{Units: 1, Calls: 1}, Budgets: []*engine.Budget{b}})
			if err != nil || answers[0].Refusal != nil {
				t.Fatal(answers, err)
			}
			return answers[0].IDs[0]
		}
		long, short := engine.New(ledger, nil).Account(account), engine.New(ledger, nil).Account(account)
		id := spend(short, hour)
		for range 40 {
			spend(long, day)
			time.Sleep(20 * time.Minute)
			if err := short.Settle(context.Background(), id, engine.Amounts{Units: 1, Calls: 1}); err != nil {
				t.Fatal(err)
			}
			id = spend(short, hour)
		}
		var used int64
		err := engine.New(ledger, nil).Account(account).View(context.Background(), func(v *engine.View) {
			used = v.Held(day, "").Used
		})
		if err != nil || used != 81 {
			t.Errorf("a day holds %d calls of 81, %v", used, err)
		}
	})
}

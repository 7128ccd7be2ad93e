package ledgertest

import (
	"time"

	"github.com/ration-dev/ration/quota"
)

// acceptLoss accepts what the log of account lacks.
func (w *world) acceptLoss(day *quota.Charge) {
	w.Helper()
	g, err := quota.NewGuard(w.Ledger, []quota.Budget{{Account: account, Name: day.Budget, Limit: day.Limit, Window: day.Window}}, nil)
	if err == nil {
		err = g.AcceptLoss(w.ctx, account)
	}
	if err != nil {
		w.Fatalf("accept the loss: %v", err)
	}
}

// acceptedLoss: what an operator has given up is not restored by any host, for
// as long as it would count; what came afterwards is.
func acceptedLoss(w *world) {
	day := charge("day", 100, quota.Sliding(24*time.Hour))
	a, b := newHost(w), newHost(w)
	a.call("m", 30, day)
	b.call("m", 60, day)
	a.call("m", 5, day)
	w.clock.Add(time.Second)
	w.acceptLoss(day)
	w.clock.Add(time.Second)
	for _, h := range []*host{a, b, a} {
		if done := h.restore(); done.Entries != 0 || done.Units != 0 || done.Noted != 0 {
			w.Fatalf("%+v; want nothing restored", done)
		}
	}
	w.spend(100, day)
	w.clock.Add(23*time.Hour + 59*time.Minute)
	a.restore()
	if log := w.log(); len(log) != 2 || !log[0].AcceptsLoss() || log[1].AcceptsLoss() {
		w.Fatalf("%+v; want the note and the call", log)
	}
	known, err := w.Restore(w.ctx, &quota.Restoration{Account: account, History: 48 * time.Hour, Known: quota.Receipt{ID: a.entries[0].ID, At: a.entries[0].At}})
	if err != nil || known.Forgotten != nil {
		w.Fatalf("%+v, %v; want no loss: it was accepted", known, err)
	}
	w.clock.Add(time.Hour)
	a.call("m", 7, day)
	if done := a.restore(); done.Units != 7 {
		w.Fatalf("%+v; want the later call alone", done)
	}
}

// acceptedNotes: notes of earlier restorations go with the loss, and the
// entries that these restored stay. What one turns out to cost more is added.
func acceptedNotes(w *world) {
	day := charge("day", 100, quota.Sliding(24*time.Hour))
	a, b := newHost(w), newHost(w)
	b.call("m", 40, day)
	a.call("m", 20, day)
	if done := a.restore(); done.Units != 20 || done.Noted != 40 {
		w.Fatalf("%+v; want 20 units and a note of 40", done)
	}
	w.clock.Add(time.Second)
	w.acceptLoss(day)
	w.used(20, day)
	a.entries[0].Units = 25
	a.restore()
	b.restore()
	w.used(25, day)
}

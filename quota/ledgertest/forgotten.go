package ledgertest

import (
	"errors"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// forgets spends with an entry that the log must have forgotten.
func (w *world) forgets(known quota.Receipt, charges ...*quota.Charge) *quota.ForgottenError {
	w.Helper()
	before := w.log()
	_, err := w.Spend(w.ctx, &quota.Batch{Account: account, Known: known, Requests: []quota.Request{request("m", 50, charges...)}})
	forgotten, ok := errors.AsType[*quota.ForgottenError](err)
	isLost := ok && errors.Is(err, quota.ErrLedgerLost)
	if !isLost || forgotten.Account != account || !forgotten.Known.At.Equal(known.At) {
		w.Fatalf("%v; want a ForgottenError", err)
	}
	if !slices.Equal(w.log(), before) {
		w.Fatal("the batch wrote something")
	}
	return forgotten
}

// forgottenLife: a log that was created anew has another epoch, and grants
// nothing to a client that knows the old one.
func forgottenLife(w *world) {
	day := charge("day", 100, quota.Sliding(24*time.Hour))
	h := newHost(w)
	old := h.call("m", 5, day)
	w.clock.Add(time.Minute)
	present := w.spend(1, day)
	if old.Epoch == 0 || present.Epoch == 0 || old.Epoch == present.Epoch {
		w.Fatalf("epochs %x and %x; want two", old.Epoch, present.Epoch)
	}
	old.Account = account
	if f := w.forgets(old); f.Present.Epoch != present.Epoch || !f.Present.At.Equal(present.At) {
		w.Fatalf("%+v; want the present log's epoch and newest entry", f.Present)
	}
	if again := w.spend(1, day); again.Epoch != present.Epoch {
		w.Fatalf("epoch %x after %x", again.Epoch, present.Epoch)
	}
	w.used(2, day)
	answers := w.granted(&quota.Batch{Account: account, Known: present, Requests: []quota.Request{request("m", 1, day)}})
	if answers[0].Receipt.Epoch != present.Epoch {
		w.Fatalf("%+v; want a grant of epoch %x", answers, present.Epoch)
	}
}

// forgottenTail: a log whose newest entry is older than one it has granted has
// lost its tail.
func forgottenTail(w *world) {
	day := charge("day", 100, quota.Sliding(24*time.Hour))
	known := quota.Receipt{At: w.clock.Now().Add(time.Minute)}
	if f := w.forgets(known); !f.Present.At.IsZero() {
		w.Fatalf("newest entry of %s in an empty log", f.Present.At)
	}
	receipt := w.spend(1, day)
	known.Epoch = receipt.Epoch
	w.forgets(known)
	w.clock.Add(2 * time.Minute)
	w.spend(1, day)
	known.ID = receipt.ID
	known.At = receipt.At
	w.ask(&quota.Batch{Account: account, Known: known, Requests: []quota.Request{request("m", 1)}})
}

// refusalNamesTheLog: a caller that was only refused knows by its epoch which
// log that was, and is not granted anything by another. It knows the newest
// entry, too, but for notes, which a restoration may remove.
func refusalNamesTheLog(w *world) {
	day := charge("day", 100, quota.Sliding(24*time.Hour))
	w.spend(20, day)
	granted := w.spend(40, day)
	for range 2 {
		w.batch(entered(request("note", 0), quota.EntryNote, 0))
	}
	w.clock.Add(time.Second)
	for range 2 { // the second time without a change
		for _, answer := range w.batch(request("m", 50, day), request("other", 41, day)) {
			w.refused(answer, "day", 24*time.Hour-time.Second, 40)
			if want := (quota.Receipt{ID: granted.ID, At: granted.At, Epoch: granted.Epoch}); answer.Receipt != want {
				w.Fatalf("%+v; want %+v", answer.Receipt, want)
			}
		}
	}
	w.forgets(quota.Receipt{Account: account, Epoch: granted.Epoch + 1}, day) // it would be refused
	known := quota.Receipt{Account: account, Epoch: granted.Epoch}
	w.granted(&quota.Batch{Account: account, Known: known, Requests: []quota.Request{request("m", 1, day)}})
	known.Epoch++
	if f := w.forgets(known); f.Present.Epoch != granted.Epoch {
		w.Fatalf("%+v; want the present epoch", f.Present)
	}
}

// refusalNamesARestoredEntry: so does one whose log had a note after it, which
// a restoration has removed.
func refusalNamesARestoredEntry(w *world) {
	day := charge("day", 100, quota.Sliding(24*time.Hour))
	a, b := newHost(w), newHost(w)
	a.call("m", 60, day)
	w.clock.Add(time.Second)
	later := a.heard["day"]
	later.Client, later.At = b.client, w.clock.Now()
	b.heard["day"] = later
	if done := b.restore(); done.Noted != 60 {
		w.Fatalf("%+v; want a note", done)
	}
	a.restore()
	if log := w.log(); len(log) != 1 {
		w.Fatalf("%+v; want the call alone", log)
	}
	answer := w.batch(request("m", 50, day))[0]
	if want := a.entries[0]; answer.Receipt.ID != want.ID || !answer.Receipt.At.Equal(want.At) {
		w.Fatalf("%+v; want %+v", answer.Receipt, want)
	}
}

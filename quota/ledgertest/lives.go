package ledgertest

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/ration-dev/ration/quota"
)

// traveler is a host that has known several lives of one log, each of which is
// the log of an account of its own here.
type traveler struct {
	*world
	client, process, seq uint64
	entries              []quota.Entry
	heard                map[uint64]quota.WindowUse // by epoch
	lives                map[uint64]time.Time       // its first grant, by epoch
	gaps                 []quota.Gap
	known                quota.Receipt // zero in most tests
}

func newTraveler(w *world) *traveler {
	return &traveler{world: w, client: quota.NewClient(), process: quota.NewClient(), heard: map[uint64]quota.WindowUse{}, lives: map[uint64]time.Time{}}
}

// call spends units in a life of the log.
func (h *traveler) call(life string, units quota.Units, charge *quota.Charge) quota.Receipt {
	h.Helper()
	h.clock.Add(time.Second)
	h.seq++
	batch := &quota.Batch{Account: life, Client: h.process, Seq: h.seq, Requests: []quota.Request{request("m", units, charge)}}
	answer := h.granted(batch)[0]
	receipt := answer.Receipt
	h.entries = append(h.entries, quota.Entry{At: receipt.At, ID: receipt.ID, Method: "m", Units: units, Calls: 1})
	h.heard[receipt.Epoch] = quota.WindowUse{Client: h.client, Budget: charge.Budget, Coverage: charge.Coverage, Epoch: receipt.Epoch,
		Since: receipt.At.Add(time.Microsecond - charge.Window.Length()), At: receipt.At, Used: answer.Held[0].Used}
	if _, ok := h.lives[receipt.Epoch]; !ok {
		h.lives[receipt.Epoch] = receipt.At
	}
	return receipt
}

// restore restores what the host knows into a life of the log that lacks it.
func (h *traveler) restore(life string) quota.RestoreResult {
	h.Helper()
	h.clock.Add(time.Second)
	r := &quota.Restoration{Account: life, History: 48 * time.Hour, Entries: h.entries, Heard: slices.Collect(maps.Values(h.heard)), Gaps: h.gaps, Known: h.known, Lost: true}
	for epoch, since := range h.lives {
		for _, client := range []uint64{h.client, h.process} {
			r.Lives = append(r.Lives, quota.Life{Client: client, Epoch: epoch, Since: since})
		}
	}
	done := h.restored(r)
	h.gaps, h.known = done.Gaps, quota.Receipt{}
	return done
}

// restoredAfterTwoLosses: a host returns that was away when the log was lost
// twice. What another heard in between did not count its calls, so they are no
// part of the note for the calls of hosts that are still away.
func restoredAfterTwoLosses(w *world) {
	day := charge("day", 500, quota.Sliding(24*time.Hour))
	here := newTraveler(w)
	away := newTraveler(w)
	gone := newTraveler(w)
	away.call("first", 100, day)
	gone.call("second", 150, day)
	here.call("second", 10, day)
	here.restore(account)
	for _, host := range []*traveler{away, here, away} {
		host.restore(account)
		w.used(260, day)
	}
	if done := gone.restore(account); done.Noted != 0 {
		w.Fatalf("%+v; want no note when all have returned", done)
	}
	w.used(260, day)
}

// restoredFromANote: a host returns whose calls a note stood for when the log
// was lost for the second time.
func restoredFromANote(w *world) {
	day := charge("day", 500, quota.Sliding(24*time.Hour))
	here, away := newTraveler(w), newTraveler(w)
	away.call("first", 100, day)
	here.call("first", 10, day)
	here.restore("second")
	here.call("second", 5, day)
	here.restore(account)
	w.used(115, day)
	if done := away.restore(account); done.Noted != 0 {
		w.Fatalf("%+v; want no note when all have returned", done)
	}
	w.used(115, day)
}

// restoredAllowance: what a host sent within its allowance and has not restored
// was not counted by what others heard later.
func restoredAllowance(w *world) {
	day := charge("day", 500, quota.Sliding(24*time.Hour))
	here := newTraveler(w)
	away := newTraveler(w)
	gone := newTraveler(w)
	away.call("first", 1, day)
	gone.call("first", 150, day)
	sent := quota.Entry{At: w.clock.Now(), ID: quota.ID{Client: away.process, Seq: 9}, Method: "m", Units: 40, Calls: 1}
	here.call("first", 10, day)
	here.restore(account)
	lives := []quota.Life{{Client: away.process, Seq: 9}}
	for epoch, since := range away.lives {
		lives = append(lives, quota.Life{Client: away.process, Epoch: epoch, Since: since})
	}
	r := &quota.Restoration{Account: account, Entries: append(away.entries, sent), Lives: lives, Lost: true}
	w.restored(r)
	w.used(201, day)
}

// restoredIntoAnOlderCopy: the log has its old epoch and lacks its tail. It
// gets a new epoch once, so that what is heard from then on is not taken for
// what was heard of the tail.
func restoredIntoAnOlderCopy(w *world) {
	day := charge("day", 500, quota.Sliding(24*time.Hour))
	here := newTraveler(w)
	away := newTraveler(w)
	gone := newTraveler(w)
	before := here.call("copy", 10, day)
	away.call("tail", 100, day) // of the same life, in truth
	away.lives = map[uint64]time.Time{before.Epoch: away.entries[0].At}
	clear(away.heard)
	gone.call("copy", 20, day)
	done := here.restore("copy")
	if done.Known.Epoch == before.Epoch || done.Known.Epoch == 0 {
		w.Fatalf("epoch %x after %x; want a new one", done.Known.Epoch, before.Epoch)
	}
	for range 2 {
		if again := here.restore("copy"); again.Known.Epoch != done.Known.Epoch {
			w.Fatalf("epoch %x after %x; want the same", again.Known.Epoch, done.Known.Epoch)
		}
	}
	if _, err := w.Spend(w.ctx, &quota.Batch{Account: "copy", Known: before, Requests: []quota.Request{request("m", 1)}}); !errors.Is(err, quota.ErrLedgerLost) {
		w.Fatalf("%v; want ErrLedgerLost for a client that knows the old epoch", err)
	}
	if after := here.call("copy", 5, day); after.Epoch != done.Known.Epoch {
		w.Fatalf("epoch %x; want %x", after.Epoch, done.Known.Epoch)
	}
	here.restore(account)
	away.restore(account)
	w.used(135, day)
}

// restoredIntoAUsedCopy: an older copy of a log was used under the same epoch.
// What is heard of it later did not count the log's tail, also after the copy
// is lost in turn.
func restoredIntoAUsedCopy(w *world) {
	day := charge("day", 500, quota.Sliding(24*time.Hour))
	before := newTraveler(w)
	away := newTraveler(w)
	other := newTraveler(w)
	epoch := before.call("copy", 10, day).Epoch
	away.known = away.call("tail", 20, day) // of the same life, in truth, after 30 units of others
	tail := away.heard[away.known.Epoch]
	tail.Epoch = epoch
	tail.Used = 10 + 20 + 30
	away.known.Epoch = epoch
	away.heard, away.lives = map[uint64]quota.WindowUse{epoch: tail}, map[uint64]time.Time{epoch: tail.At}
	other.call("copy", 5, day)
	for _, log := range []string{"copy", account} {
		for _, host := range []*traveler{away, other, before} {
			host.restore(log)
		}
	}
	w.used(10+20+30+5, day)
}

// restoredLatestStatement: a note for calls that have left the later
// statement's window would hide calls that have not.
func restoredLatestStatement(w *world) {
	day := charge("day", 500, quota.Sliding(24*time.Hour))
	a := newTraveler(w)
	b := newTraveler(w)
	gone := newTraveler(w)
	gone.call("first", 100, day)
	w.clock.Add(time.Hour)
	a.call("first", 1, day) // heard the first 100
	w.clock.Add(22 * time.Hour)
	gone.call("first", 100, day)
	w.clock.Add(90 * time.Minute)
	b.call("first", 1, day) // heard the second 100
	a.restore(account)
	b.restore(account)
	w.used(102, day)
	w.clock.Add(time.Hour)
	w.used(101, day)
}

// restoredEntriesOfOneID: an addition, and a call whose id was used again, are
// restored beside the first entry of their id, once.
func restoredEntriesOfOneID(w *world) {
	day := charge("day", 100, quota.Sliding(24*time.Hour))
	at := func(minute, units quota.Units, kind quota.EntryKind, calls quota.Units) quota.Entry {
		return quota.Entry{At: noon.Add(time.Duration(minute) * time.Minute), ID: quota.ID{Client: 7, Seq: 1}, Kind: kind, Method: "m", Units: units, Calls: calls}
	}
	all := []quota.Entry{at(0, 10, quota.EntryCall, 1), at(1, 5, quota.EntryAddition, 0), at(2, 10, quota.EntryCall, 1), at(3, 0, quota.EntryRefunded, 0)}
	w.clock.Add(time.Hour)
	for n, entries := range [][]quota.Entry{all[:1], all, all, {at(0, 25, quota.EntryCall, 1)}} {
		w.restored(&quota.Restoration{Account: account, History: 24 * time.Hour, Entries: entries})
		if log := w.log(); n > 0 && !slices.Equal(log, all) {
			w.Fatalf("restoration %d: %+v; want %+v", n, log, all)
		}
	}
	w.used(25, day)
}

// restoredKeyIsListed: a key whose log was restored is listed, however long
// it is.
func restoredKeyIsListed(w *world) {
	key := strings.Repeat("long ", 30)
	entry := quota.Entry{At: noon, ID: quota.ID{Client: 7, Seq: 1}, Method: "m", Units: 5, Calls: 1}
	w.restored(&quota.Restoration{Account: account, Key: key, History: time.Hour, Entries: []quota.Entry{entry}})
	if got := slices.Compact(collect(w, w.Keys(w.ctx, account))); !slices.Equal(got, []string{key}) {
		w.Fatalf("keys %q; want %q", got, key)
	}
}

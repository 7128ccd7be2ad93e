package ledgertest

import (
	"time"

	"github.com/ration-dev/ration/quota"
)

// restoredIntoTrimmedLog: a restoration keeps what the log holds, even after
// the log has dropped old entries.
func restoredIntoTrimmedLog(w *world) {
	minute := charge("minute", 100, quota.Sliding(time.Minute))
	for range 10 {
		w.spend(1, minute)
		w.clock.Add(time.Minute)
	}
	w.spend(5, minute)
	h := newHost(w)
	h.call("m", 7, minute)
	h.heard = nil
	h.restore()
	w.used(12, minute)
}

// restoredKnowsItsOwn: after a restoration, a client knows the newest of its
// own entries. If it knew the newest of all, and that were lost and restored by
// the client it belongs to, the loss of its own would go unnoticed.
func restoredKnowsItsOwn(w *world) {
	day := charge("day", 100, quota.Sliding(24*time.Hour))
	h := newHost(w)
	h.call("m", 10, day)
	own := h.call("m", 20, day)
	w.clock.Add(time.Minute)
	other := w.spend(5, day)
	for range 2 {
		if known := h.restore().Known; known.ID != own.ID || !known.At.Equal(own.At) || known.Epoch != other.Epoch {
			w.Fatalf("%+v; want %+v in epoch %x", known, own, other.Epoch)
		}
	}
}

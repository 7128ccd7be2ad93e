package client

import (
	"sync"
	"time"
)

// hourly tells which events of a kind are the first in an hour. It is safe for
// concurrent use.
type hourly struct {
	mu   sync.Mutex
	told map[[2]string]told
}

// told is the last event of a kind that was the first.
type told struct {
	at     time.Time
	about  string
	isOver bool
}

// soon is how long after the first another one counts as the first, if what it
// was about was over meanwhile.
const soon = time.Minute

// isFirst reports whether an event is the first of its kind in an hour.
func (h *hourly) isFirst(kind [2]string, about string, now time.Time) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, known := h.told[kind]
	age := now.Sub(last.at)
	isAgain := last.isOver && age >= soon
	if known && age < time.Hour && !isAgain {
		return false
	}
	if h.told == nil {
		h.told = map[[2]string]told{}
	}
	h.told[kind] = told{at: now, about: about}
	return true
}

// over notes that what events of an account were about is over.
func (h *hourly) over(account, about string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for kind, last := range h.told {
		if kind[0] == account && last.about == about && !last.isOver {
			last.isOver = true
			h.told[kind] = last
		}
	}
}

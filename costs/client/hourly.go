package client

import (
	"sync"
	"time"
)

// hourly tells which events of a kind are the first in an hour. It is safe for
// concurrent use.
type hourly struct {
	mu   sync.Mutex
	told map[eventKind]told
}

// eventKind is what the events of one kind share; of is a budget or a host. At
// most maxKinds are counted for one of in an hour; events of further kinds are
// never the first.
type eventKind struct{ account, of, method, key, region string }

// told is the last event of a kind that was the first.
type told struct{ at, looked time.Time }

const (
	maxKinds = 16
	// soon is how often isFirst looks at most whether an event is over.
	soon = time.Minute
)

// isFirst reports whether an event is the first of its kind in an hour, or
// since what it was about is over, which isOver reports of a time. nil never
// does.
func (h *hourly) isFirst(kind eventKind, now time.Time, isOver func(since time.Time) bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	last, known := h.told[kind]
	isRecent := known && now.Sub(last.at) < time.Hour
	switch {
	case isRecent && (isOver == nil || now.Sub(last.looked) < soon):
		return false
	case isRecent:
		last.looked = now
		h.told[kind] = last
		h.mu.Unlock()
		over := isOver(last.at)
		h.mu.Lock()
		if !over {
			return false
		}
	case !h.hasRoom(kind, now):
		return false
	}
	h.told[kind] = told{now, now}
	return true
}

// hasRoom reports whether there may be another kind. It drops those of more
// than an hour ago.
func (h *hourly) hasRoom(kind eventKind, now time.Time) bool {
	alike := 0
	for other, last := range h.told {
		if now.Sub(last.at) >= time.Hour {
			delete(h.told, other)
		} else if other.account == kind.account && other.of == kind.of {
			alike++
		}
	}
	if h.told == nil {
		h.told = map[eventKind]told{}
	}
	return alike < maxKinds
}

package inbound

import (
	"cmp"
	"context"
	"sync"
)

// Memory returns a store in the memory of this process. It keeps 16 bytes for
// each request that an exact limit holds. It drops a client at most four times
// the longest limit after its last request.
func Memory() Store { return &memory{younger: map[string]*Window{}} }

// memory holds windows in two generations. After each span it drops the older
// one, whose windows have not been used for a span: it searches for none.
type memory struct {
	mu      sync.Mutex
	span    int64 // twice the longest limit: an estimate lasts two periods
	turned  int64 // when the younger generation began
	younger map[string]*Window
	older   map[string]*Window
}

// Count implements Store.
func (m *memory) Count(_ context.Context, r *Request) (*Answer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	windows := make([]*Window, len(r.Limits))
	for i := range windows {
		windows[i] = m.window(r.Key(i))
		m.span = max(m.span, 2*r.Limits[i].Per.Microseconds())
	}
	a := Decide(r, windows)
	if age := a.At - m.turned; age >= m.span || age < 0 {
		m.older, m.younger = m.younger, map[string]*Window{}
		m.turned = a.At
	}
	return a, nil
}

// window returns the window of a key, which is in the younger generation then.
func (m *memory) window(key string) *Window {
	w := m.younger[key]
	if w == nil {
		w = cmp.Or(m.older[key], &Window{})
		m.younger[key] = w
		delete(m.older, key)
	}
	return w
}

package jobs

import (
	"sync"

	"github.com/ration-dev/ration/quota"
)

// Meter adds up what the calls of a run were charged, by region. Its zero
// value is ready, and it is safe for concurrent use.
type Meter struct {
	mu      sync.Mutex
	regions map[string]charged
}

type charged struct {
	calls int
	units quota.Units
}

// Charged is a quota.Transport's hook of that name.
func (m *Meter) Charged(call quota.Call, calls int, units quota.Units) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.regions == nil {
		m.regions = map[string]charged{}
	}
	sum := m.regions[call.Caller.Region]
	sum.calls += calls
	sum.units += units
	m.regions[call.Caller.Region] = sum
}

// Region returns what the calls of a region were charged.
func (m *Meter) Region(region string) (calls int, units quota.Units) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := m.regions[region]
	return sum.calls, sum.units
}

package jobs

import (
	"sync"

	"github.com/ration-dev/ration/quota"
)

// Meter adds up the charges of a run by region. The zero value is ready to use.
// It is safe for concurrent use.
type Meter struct {
	mu      sync.Mutex
	regions map[string]charges
}

type charges struct {
	calls int
	units quota.Units
}

// Charged adds a charge. Set it as quota.Transport.Charged.
func (m *Meter) Charged(call quota.Call, calls int, units quota.Units) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.regions == nil {
		m.regions = map[string]charges{}
	}
	sum := m.regions[call.Caller.Region]
	sum.calls += calls
	sum.units += units
	m.regions[call.Caller.Region] = sum
}

// Region returns the number of calls that were charged to a region, and their
// units.
func (m *Meter) Region(region string) (calls int, units quota.Units) {
	m.mu.Lock()
	defer m.mu.Unlock()
	sum := m.regions[region]
	return sum.calls, sum.units
}

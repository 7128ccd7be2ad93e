package uptime_test

import (
	"testing"

	"github.com/ration-dev/ration/internal/uptime"
)

// TestRead: the start of the host is known, and stays the same while time
// passes.
func TestRead(t *testing.T) {
	first, second := uptime.Read(), uptime.Read()
	if first.Boot == 0 || first.Since <= 0 {
		t.Errorf("%+v; want a start of the host and a time since", first)
	}
	if second.Boot != first.Boot || second.Since < first.Since {
		t.Errorf("%+v after %+v; want the same start, and no earlier time", second, first)
	}
}

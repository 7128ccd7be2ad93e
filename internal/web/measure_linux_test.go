package web_test

import (
	"os"
	"syscall"
	"testing"
	"time"
)

// measure logs what an open page costs this process, with
// RATION_PAGE_ENTRIES set.
func (p *tab) measure(t *testing.T) {
	if os.Getenv("RATION_PAGE_ENTRIES") == "" {
		return
	}
	cpu := func() time.Duration {
		var u syscall.Rusage
		_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	const span = 20 * time.Second
	before := cpu()
	time.Sleep(span)
	t.Logf("an open page, nothing spent: %.2f %% of a core", 100*float64(cpu()-before)/float64(span))
}

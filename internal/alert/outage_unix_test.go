//go:build unix

package alert_test

import (
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/alert"
	"github.com/ration-dev/ration/internal/servers"
)

// TestAHostTellsOfAnOutageOnce: while Redis is down one process of a host sends
// the alert, and again in the next outage.
func TestAHostTellsOfAnOutageOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("waits eight seconds for a ledger that is down")
	}
	server, r, state := servers.StartRedis(t), newReceiver(t, 0), t.TempDir()
	var watches []*alert.Watch
	for range 4 {
		watches = append(watches, alert.New(newClient(t, "{webhook: "+r.URL+"}", server.URL(), state), nil))
	}
	check := func(want int) {
		t.Helper()
		var wg sync.WaitGroup
		for _, w := range watches {
			wg.Go(func() { w.Check(t.Context()) })
		}
		wg.Wait()
		if texts := r.texts(); len(texts) != want {
			t.Errorf("%q; want %d", texts, want)
		}
	}
	check(0)
	for range 2 {
		server.Stop()
		check(1)
		check(0)
		server.Restart(t)
		for _, err := watches[0].Client().Guard().AccountBalances(t.Context(), "p"); err != nil; {
			_, err = watches[0].Client().Guard().AccountBalances(t.Context(), "p")
		}
		check(0)
		ageEnded(t, state)
	}
}

// ageEnded makes the end of an outage an hour old.
func ageEnded(t *testing.T, state string) { age(t, state, "*.ended", time.Hour) }

// age gives the one mark of a pattern an age.
func age(t *testing.T, state, pattern string, by time.Duration) {
	t.Helper()
	marks, err := filepath.Glob(filepath.Join(state, "alerts", pattern))
	if err != nil || len(marks) != 1 {
		t.Fatal(marks, err)
	}
	if err := os.Chtimes(marks[0], time.Time{}, time.Now().Add(-by)); err != nil {
		t.Fatal(err)
	}
}

// TestAClockSetBackSuppressesNoAlert: an outage whose beginning or end was
// stamped in the future suppressed the alerts of later outages until that time.
func TestAClockSetBackSuppressesNoAlert(t *testing.T) {
	r, state := newReceiver(t, 0), t.TempDir()
	w := alert.New(newClient(t, "{webhook: "+r.URL+"}", "sqlite:"+filepath.Join(state, "ledger.db"), state), nil)
	for range 2 {
		w.TellDown(t.Context(), "p")
		w.Check(t.Context())
		age(t, state, "*.ended", -time.Hour)
		if texts := r.texts(); len(texts) != 1 {
			t.Errorf("%q; want the alert of an outage", texts)
		}
	}
	w.TellDown(t.Context(), "p")
	age(t, state, "alert ????????????????????????", -1000*time.Hour)
	w.TellDown(t.Context(), "p")
	if texts := r.texts(); len(texts) != 2 {
		t.Errorf("%q; want an alert of an outage, and it again", texts)
	}
}

// TestAnOldErrorSendsNoAlert: a process whose connections still report the
// outage after another has reached the ledger sends no alert.
func TestAnOldErrorSendsNoAlert(t *testing.T) {
	if testing.Short() {
		t.Skip("waits four seconds for a ledger that is down")
	}
	server, r, state := servers.StartRedis(t), newReceiver(t, 0), t.TempDir()
	up := alert.New(newClient(t, "{webhook: "+r.URL+"}", server.URL(), state), nil)
	server.Stop()
	up.Check(t.Context())
	if texts := r.texts(); len(texts) != 1 {
		t.Errorf("%q; want the alert of the outage", texts)
	}
	server.Restart(t)
	for _, err := up.Client().Guard().AccountBalances(t.Context(), "p"); err != nil; {
		_, err = up.Client().Guard().AccountBalances(t.Context(), "p")
	}
	up.Check(t.Context())
	up.TellDown(t.Context(), "p")
	if texts := r.texts(); len(texts) != 0 {
		t.Errorf("%q; want no alert of what is over", texts)
	}
	ageEnded(t, state)
	up.TellDown(t.Context(), "p")
	if texts := r.texts(); len(texts) != 1 {
		t.Errorf("%q; want an alert of the next outage", texts)
	}
}

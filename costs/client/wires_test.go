package client_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
)

// TestEntriesAreListedForTheirHistory: a ledger keeps entries for as long as
// costs.yaml says, and not only while a window needs them.
func TestEntriesAreListedForTheirHistory(t *testing.T) {
	s := newStand(t, "history: 48h\n")
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	s.options.Now = func() time.Time { return now }
	c := s.open()
	for want, hours := range []time.Duration{0, 24, 23} {
		now = now.Add(hours * time.Hour)
		if err := get(c, "get"); err != nil {
			t.Fatal(err)
		}
		n := 0
		for _, err := range c.Guard().Entries(t.Context(), quota.Query{Account: "a"}) {
			if n++; err != nil {
				t.Fatal(err)
			}
		}
		if n != want+1 {
			t.Errorf("%d entries at %s; want %d", n, now, want+1)
		}
	}
}

// TestRequestWaitsForItsUnits: a request waits for its units for as long as the
// program says.
func TestRequestWaitsForItsUnits(t *testing.T) {
	s := newStand(t, "")
	text := strings.Replace(file, "{name: hour, limit: 100, window: 1h}", "{name: burst, limit: 60, window: 200ms}", 1)
	if err := os.WriteFile(filepath.Join(s.dir, "costs.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s.options.MaxWait = time.Minute
	c := s.open()
	for range 2 {
		if err := get(c, "export"); err != nil {
			t.Error(err)
		}
	}
}

// TestCloseWaitsForWhatAnAnswerSaid: an answer says that others have spent,
// which is recorded beside the calls.
func TestCloseWaitsForWhatAnAnswerSaid(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range map[string]int64{"Limit": 100, "Remaining": 40,
			"Reset": time.Now().Add(time.Hour).Unix()} {
			w.Header().Set("X-RateLimit-"+name, strconv.FormatInt(value, 10))
		}
	}))
	t.Cleanup(srv.Close)
	s := newStand(t, "feedback: github\n")
	s.options.Base = dialing(srv)
	begun, release := make(chan bool), make(chan bool)
	var recorded atomic.Bool
	appends := 0
	s.options.Layer = func(l quota.Ledger) quota.Ledger {
		return engine.WatchLedger(l, func(op, _ string, _ time.Duration, err error) error {
			if op != "append" {
				return err
			}
			if appends++; appends == 2 { // after that of the call
				close(begun)
				<-release
				recorded.Store(true)
			}
			return err
		})
	}
	c := s.open()
	if err := get(c, "get"); err != nil {
		t.Fatal(err)
	}
	<-begun
	time.AfterFunc(100*time.Millisecond, func() { close(release) })
	if err := c.Close(); err != nil || !recorded.Load() {
		t.Errorf("%v; closed, and what the answer said was recorded: %v", err, recorded.Load())
	}
}

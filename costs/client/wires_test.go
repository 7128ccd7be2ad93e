package client_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// spends is a ledger that calls f with each batch before it is decided.
type spends struct {
	quota.Log
	f func(*quota.Batch)
}

func (l *spends) RealTime() bool { return quota.RealTime(l.Log) }

func (l *spends) Spend(ctx context.Context, batch *quota.Batch) ([]quota.Answer, error) {
	l.f(batch)
	return l.Log.Spend(ctx, batch)
}

// TestHistoryIsNotAsked: a ledger keeps entries for as long as costs.yaml says.
func TestHistoryIsNotAsked(t *testing.T) {
	s := newStand(t, "history: 48h\n")
	var asked time.Duration
	s.options.Layer = func(l quota.Log) quota.Log {
		return &spends{l, func(batch *quota.Batch) { asked = batch.History }}
	}
	if err := get(s.open(), "get"); err != nil || asked != 48*time.Hour {
		t.Errorf("%v, entries for %s were asked; want two days", err, asked)
	}
}

// TestMaxWaitIsIgnored: a request waits for its units for as long as the
// program says.
func TestMaxWaitIsIgnored(t *testing.T) {
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

// TestCloseForgetsWhatAnAnswerSaid: an answer says that others have spent,
// which is recorded beside the calls. Close waits for that.
func TestCloseForgetsWhatAnAnswerSaid(t *testing.T) {
	srv := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range map[string]int64{"Limit": 100, "Remaining": 40, "Reset": time.Now().Add(time.Hour).Unix()} {
			w.Header().Set("X-RateLimit-"+name, strconv.FormatInt(value, 10))
		}
	}))
	t.Cleanup(srv.Close)
	s := newStand(t, "feedback: github\n")
	s.options.Base = dialing(srv)
	begun, release := make(chan bool), make(chan bool)
	var recorded atomic.Bool
	s.options.Layer = func(l quota.Log) quota.Log {
		return &spends{l, func(batch *quota.Batch) {
			if batch.Requests[0].Kind == quota.EntryNote {
				close(begun)
				<-release
				recorded.Store(true)
			}
		}}
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

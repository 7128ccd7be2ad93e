package client_test

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// room is processes with one ledger on a test's clock, and a budget of 100
// units.
type room struct {
	*testing.T
	now    time.Time
	ledger onTestClock
	per    string
}

// onTestClock is a ledger that several clients use.
type onTestClock struct{ quota.Ledger }

func (onTestClock) Close() error   { return nil }
func (onTestClock) RealTime() bool { return false }

func newRoom(t *testing.T, per string) *room {
	r := &room{T: t, now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC), per: per}
	r.ledger = onTestClock{memledger.Open(&memledger.Options{Now: r.clock})}
	return r
}

func (r *room) clock() time.Time { return r.now }

func (r *room) process() *client.Client {
	r.Helper()
	table, err := costs.Parse("costs.yaml", []byte("version: 1\naccount: a\ncosts: {search: 100}\nbudgets:\n"+
		"  - {name: day, limit: 100, window: 24h"+r.per+"}\n"))
	if err != nil {
		r.Fatal(err)
	}
	dir := r.TempDir()
	c, err := client.New(table, &client.Options{State: dir, Replica: filepath.Join(dir, "replica"), Opened: r.ledger,
		Now: r.clock})
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { c.Close() })
	return c
}

// spend spends 100 units, and returns the grant and whether it was refused.
func (r *room) spend(c *client.Client, method, key string) (*quota.Grant, bool) {
	r.Helper()
	r.now = r.now.Add(time.Second)
	grant, err := c.Guard().Spend(r.Context(), quota.Call{Account: "a", Method: method, Units: 100, Key: key})
	if err != nil && !errors.Is(err, quota.ErrRefused) {
		r.Fatal(err)
	}
	return grant, err != nil
}

// recorded returns how many refusals the log has.
func (r *room) recorded(c *client.Client) (n int) {
	r.Helper()
	for e, err := range c.Guard().Entries(r.Context(), quota.Query{Account: "a"}) {
		if err != nil {
			r.Fatal(err)
		}
		if e.Kind == quota.EntryRefused {
			n++
		}
	}
	return n
}

// TestARefusalIsRecordedAgainAfterAGrantToAnother: the other process's grant
// ended the refusal, and for the rest of an hour none was recorded.
func TestARefusalIsRecordedAgainAfterAGrantToAnother(t *testing.T) {
	r := newRoom(t, "")
	refused, granted := r.process(), r.process()
	before, _ := r.spend(granted, "search", "")
	for range 2 {
		r.spend(refused, "search", "")
		if n := r.recorded(refused); n != 1 {
			t.Fatalf("%d refusals are recorded; want 1", n)
		}
		r.now = r.now.Add(2 * time.Minute)
	}
	if err := before.Settle(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	if _, isRefused := r.spend(granted, "search", ""); isRefused {
		t.Fatal("refused")
	}
	for range 3 {
		r.spend(refused, "search", "")
		if n := r.recorded(refused); n != 2 {
			t.Fatalf("%d refusals are recorded; want 2", n)
		}
	}
}

// TestEachMethodAndKeyIsRecorded: after the first of a budget, others were not
// for an hour. There are at most 16.
func TestEachMethodAndKeyIsRecorded(t *testing.T) {
	r := newRoom(t, "")
	c := r.process()
	for _, method := range []string{"first", "search", "items", "search"} {
		r.spend(c, method, "")
	}
	if n := r.recorded(c); n != 2 {
		t.Errorf("%d refusals of two methods are recorded; want 2", n)
	}
	r = newRoom(t, ", per: key")
	c = r.process()
	for range 2 {
		for i := range 20 {
			r.spend(c, "search", fmt.Sprint("key", i))
		}
	}
	if n := r.recorded(c); n != 16 {
		t.Errorf("%d refusals of 20 keys are recorded; want 16", n)
	}
}

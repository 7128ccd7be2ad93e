package client_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota"
)

// TestRefusalsOfAProgramAreRecorded: a refusal of a program's request is stored
// for ration why. Of many within a second, the last is stored when the Client
// is closed.
func TestRefusalsOfAProgramAreRecorded(t *testing.T) {
	s := newStand(t, "")
	c := s.open()
	if r, err := client.LastRefusal(c.State()); r != nil || err != nil {
		t.Fatalf("%+v, %v; want none yet", r, err)
	}
	if err := get(c, "export"); err != nil {
		t.Fatal(err)
	}
	var refusal error
	for range 3 {
		if refusal = get(c, "export"); !errors.Is(refusal, quota.ErrRefused) {
			t.Fatalf("%v; want a refusal", refusal)
		}
	}
	r, err := client.LastRefusal(c.State())
	if err != nil || r == nil || *r.Budget != "hour" || r.Method != "export" || r.Units != 60 || r.Remaining != 40 ||
		r.Ledger != c.LedgerName() {
		t.Fatalf("%+v, %v", r, err)
	}
	first := r.RetryAt
	for range 40 {
		if err := get(c, "get"); err != nil {
			t.Fatal(err)
		}
	}
	if err := get(c, "get"); !errors.Is(err, quota.ErrRefused) {
		t.Fatalf("%v; want a refusal", err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err = client.LastRefusal(c.State()); err != nil || r.Method != "get" || r.RetryAt.Before(first) {
		t.Errorf("%+v, %v; want the last one", r, err)
	}
	c.RepeatRefusal(refusal) // as the command does that it ended
	if r, err = client.LastRefusal(c.State()); err != nil || r.Method != "export" {
		t.Errorf("%+v, %v; want the repeated one", r, err)
	}
}

// TestTheLedgerGetsFewRefusals: at a limit, where calls are granted and refused
// in turn, each refusal after a grant wrote a record.
func TestTheLedgerGetsFewRefusals(t *testing.T) {
	c := newStand(t, "").open()
	for range 5 {
		grant, err := c.Guard().Spend(t.Context(), quota.Call{Account: "a", Method: "export", Units: 60})
		if err != nil {
			t.Fatal(err)
		}
		if err := get(c, "export"); !errors.Is(err, quota.ErrRefused) {
			t.Fatalf("%v; want a refusal", err)
		}
		if err := grant.Settle(t.Context(), 0); err != nil {
			t.Fatal(err)
		}
	}
	records := 0
	for e, err := range c.Guard().Entries(t.Context(), quota.Query{Account: "a"}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Kind == quota.EntryRefused {
			records++
		}
	}
	if records != 1 {
		t.Errorf("%d records of refusals within a moment; want 1", records)
	}
}

// TestEveryRefusalIsRecordedOnce: whichever way a program spends, ration why
// explains its refusal, and the history counts it once, with a key or without.
func TestEveryRefusalIsRecordedOnce(t *testing.T) {
	s := newStand(t, "")
	c := s.open()
	if err := get(c, "export"); err != nil {
		t.Fatal(err)
	}
	call := quota.Call{Account: "a", Method: "export", Units: 50}
	ofKey := call
	ofKey.Key = "one"
	_, spent := c.Guard().Spend(t.Context(), call)
	_, waited := c.Guard().Wait(t.Context(), call, time.Millisecond)
	_, together := c.SpendTogether(t.Context(), call, 2, 0)
	_, spentByKey := c.Guard().Spend(t.Context(), ofKey)
	ways := []error{spent, waited, together, spentByKey, get(c, "export")}
	for i, err := range ways {
		if !errors.Is(err, quota.ErrRefused) {
			t.Fatalf("way %d: %v; want a refusal", i, err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	last, err := client.LastRefusal(c.State())
	if err != nil || last == nil || last.Units != 60 {
		t.Errorf("the last refusal is %+v, %v; want that of the request", last, err)
	}
	files, err := client.RefusalFiles(c.State())
	if err != nil {
		t.Fatal(err)
	}
	counted := 0
	for _, name := range files {
		counts, _, err := client.ReadRefusals(c.State(), name, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, count := range counts {
			counted += int(count.Count)
		}
	}
	if counted != len(ways) {
		t.Errorf("%d refusals are counted; want %d", counted, len(ways))
	}
}

// TestARefusalHoldsNoSecret has the upstream repeat a key: it is not written
// with the refusal.
func TestARefusalHoldsNoSecret(t *testing.T) {
	s := newStand(t, "")
	s.options.Redact = func(text string) string { return strings.ReplaceAll(text, "AIzaSECRET", "[hidden]") }
	c := s.open()
	if err := c.Guard().Cool(t.Context(),
		quota.Cooldown{Account: "a", For: time.Hour, Reason: "bad key AIzaSECRET"}); err != nil {
		t.Fatal(err)
	}
	if err := get(c, "get"); !errors.Is(err, quota.ErrRefused) {
		t.Fatalf("%v; want a refusal", err)
	}
	if r, err := client.LastRefusal(c.State()); err != nil || *r.Detail != "bad key [hidden]" ||
		strings.Contains(r.Message, "SECRET") {
		t.Errorf("%+v, %v", r, err)
	}
}

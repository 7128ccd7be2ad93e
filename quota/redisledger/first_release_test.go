package redisledger_test

import (
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/redisledger"
)

// firstRelease restores data that the first release wrote: a day's calls of two
// keys of an account, among them one settled up far from the tail, a refund and
// a correction, and a cooldown. It returns the ledger and its clock.
func firstRelease(t *testing.T) (*redis.Client, *redisledger.Ledger, *ledgertest.Clock) {
	t.Helper()
	server := redistest.Start(t)
	client := raw(t, server)
	text, err := os.ReadFile("testdata/first-release.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		var args []any
		for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
			word, err := strconv.QuotedPrefix(line)
			if err != nil {
				t.Fatal(err)
			}
			line = line[len(word):]
			word, _ = strconv.Unquote(word)
			args = append(args, word)
		}
		do(t, client, args...)
	}
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 20, 16, 24, 0, 0, time.UTC))
	l, err := redisledger.Open(server.URL(), &redisledger.Options{Now: clock.Now})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return client, l, clock
}

// releaseCharges returns the budgets that the first release charged, and what
// each held.
func releaseCharges(t *testing.T) (charges []*quota.Charge, held []quota.Units) {
	t.Helper()
	pacific, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		t.Fatal(err)
	}
	calls := charge("calls", 100, quota.Sliding(time.Hour))
	calls.Coverage = quota.NewCoverage(quota.Coverage{Measure: quota.Calls})
	return []*quota.Charge{charge("day", 1000, quota.Sliding(24*time.Hour)), charge("calendar", 1000, quota.Daily(pacific)),
		charge("search", 600, quota.Sliding(24*time.Hour), "search.list"), charge("guess", 500, quota.Counter(time.Hour), "search.list"), calls}, []quota.Units{538, 538, 280, 180, 55}
}

// TestFirstReleaseIsReadAndGoesOn: the first release's data gives the same
// answers as there, before and after the first spend.
func TestFirstReleaseIsReadAndGoesOn(t *testing.T) {
	_, l, clock := firstRelease(t)
	charges, held := releaseCharges(t)
	check := func(more quota.Units) {
		t.Helper()
		standings, err := l.Standings(t.Context(), account, "", charges)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range standings {
			if want := held[i] + more; s.Used != want && charges[i].Budget != "calls" {
				t.Errorf("%s holds %d; want %d", charges[i].Budget, s.Used, want)
			}
		}
		if n := standings[4].Used - held[4]; n != min(more, 1) {
			t.Errorf("%d calls more; want %d", n, min(more, 1))
		}
	}
	check(0)
	log := entries(t, l)
	kinds := map[quota.EntryKind]int{}
	for _, e := range log {
		kinds[e.Kind]++
	}
	if len(log) != 263 || kinds[quota.EntryCall] != 260 || kinds[quota.EntryRefunded] != 1 || kinds[quota.EntryAddition] != 2 || log[0].Units != 100 || log[0].Method != "search.list" {
		t.Errorf("%d entries, kinds %v, the first %+v", len(log), kinds, log[0])
	}
	receipt := mustSpend(t, l, "search.list", 7, charges...)
	check(7)
	if err := l.Settle(t.Context(), receipt, 4); err != nil {
		t.Fatal(err)
	}
	check(4)
	if err := l.Settle(t.Context(), quota.Receipt{Account: account, ID: log[0].ID, At: log[0].At}, 0); !errors.Is(err, quota.ErrStays) {
		t.Errorf("%v; want that it is too far from the tail", err)
	}
	_, err := spend(t, l, "search.list", 320, charges...)
	refused, ok := errors.AsType[*quota.RefusedError](err)
	if want := log[0].At.Add(24 * time.Hour); !ok || refused.Budget != "search" || refused.Remaining != 316 || !refused.RetryAt.Equal(want) {
		t.Errorf("%v; want a refusal by search until %s", err, want)
	}
	if _, err := spend(t, l, "videos.list", 1, charge("other", 1000, quota.Sliding(time.Hour))); !errors.Is(err, quota.ErrRefused) {
		t.Errorf("%v; want the cooldown", err)
	}
	clock.Add(2 * time.Hour)
	mustSpend(t, l, "videos.list", 1, charge("other", 1000, quota.Sliding(time.Hour)))
	checkReleaseKeys(t, l, charges[2:3])
}

// checkReleaseKeys checks that the keys of the first release go on.
func checkReleaseKeys(t *testing.T, l *redisledger.Ledger, charges []*quota.Charge) {
	t.Helper()
	var keys []string
	long := strings.Repeat("long ", 20)
	for _, key := range []string{"203.0.113.9", long} {
		if _, err := l.Spend(t.Context(), &quota.Batch{Account: account, Key: key, Requests: []quota.Request{{Method: "search.list", Units: 1, Charges: charges}}}); err != nil {
			t.Fatal(err)
		}
		standings, err := l.Standings(t.Context(), account, key, charges)
		if want := quota.Units(6 + len(keys)); err != nil || standings[0].Used != want {
			t.Errorf("%q: %+v, %v; want %d", key, standings, err, want)
		}
		keys = append(keys, key)
	}
	found := map[string]bool{}
	for key, err := range l.Keys(t.Context(), account) {
		if err != nil {
			t.Fatal(err)
		}
		found[key] = true
	}
	if len(found) != 2 || !found[keys[0]] || !found[keys[1]] {
		t.Errorf("keys %v; want %q", found, keys)
	}
}

// TestFirstReleaseStopsBesideThisOne: a process of the first release cannot
// read what this version wrote, and its cache is stale. So it spends nothing,
// instead of logging calls in another form.
func TestFirstReleaseStopsBesideThisOne(t *testing.T) {
	client, l, _ := firstRelease(t)
	charges, _ := releaseCharges(t)
	keys := []string{"ration:{my-project}:meta", "ration:{my-project}:log", "ration:{my-project}:cool"}
	head := func() string { return do(t, client, "hget", keys[0], "head").(string)[:12] }
	before := head()
	if _, err := l.Standings(t.Context(), account, "", charges); err != nil || head() != before {
		t.Fatalf("%v; want that looking changes nothing", err)
	}
	mustSpend(t, l, "videos.list", 1, charges[0])
	if head() == before {
		t.Error("the head that the first release knows still holds")
	}
	script, err := os.ReadFile("testdata/first-release-learn.lua")
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Repeat("a", 12) + "\x00\x00\x00\x00\x00\x00\x10\x00\x00\x00\x00\x11" + strings.Repeat("\x00", 17)
	if _, err := client.Eval(t.Context(), string(script), keys, "", strings.Repeat("r", 12), want).Result(); err == nil {
		t.Error("the first release's script took up a coverage beside this one's")
	}
	read, err := client.Eval(t.Context(), string(script), keys, "", strings.Repeat("r", 12), "").Result()
	if err != nil {
		t.Fatal(err)
	}
	// Its program reads an id, a kind, a horizon and then the length of
	// a definition.
	if items := read.([]any)[1].(string); int(binary.BigEndian.Uint32([]byte(items[20:24]))) <= len(items) {
		t.Errorf("the first release may understand %q", items)
	}
}

// TestLaterReleaseIsNotTouched: data in the form of a later release is an error
// that says so, and is not changed.
func TestLaterReleaseIsNotTouched(t *testing.T) {
	client, l, _ := firstRelease(t)
	charges, _ := releaseCharges(t)
	const meta, items = "ration:{my-project}:meta", "ration ledger, version 3 something"
	do(t, client, "hset", meta, "items", items)
	_, err := spend(t, l, "videos.list", 1, charges[0])
	_, looked := l.Standings(t.Context(), account, "", charges)
	for _, err := range []error{err, looked} {
		if !errors.Is(err, quota.ErrLedgerConfig) || !strings.Contains(err.Error(), "later version") {
			t.Errorf("%v; want ErrLedgerConfig that names the version", err)
		}
	}
	if got := do(t, client, "hget", meta, "items"); got != items {
		t.Errorf("items are %q", got)
	}
}

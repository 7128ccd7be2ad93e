package redisledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/redisledger"
)

// TestReaderKeepsNoSpelling: status or doctor on a host that misspells an
// account, before anything was spent, made its spelling the first one: the
// right one was refused for 30 days. A spend's spelling holds even if the
// account's keys are gone, and readers say so too.
func TestReaderKeepsNoSpelling(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	client := raw(t, server)
	open := func() *redisledger.Ledger { return redisledger.New(client, nil) }
	wrong := strings.ToUpper(account)
	read := func() error {
		l := open()
		_, err := l.Standings(t.Context(), wrong, "", []*quota.Charge{day})
		for _, failed := range l.Entries(t.Context(), quota.Query{Account: wrong}) {
			err = errors.Join(err, failed)
		}
		return err
	}
	if err := read(); err != nil {
		t.Fatal(err)
	}
	mustSpend(t, open(), "m", 1, day)
	do(t, client, "del", "ration:{"+account+"}:meta", "ration:{"+account+"}:log")
	if alike, ok := errors.AsType[*quota.LookAlikeError](read()); !ok || alike.Known != account {
		t.Errorf("%v; want that the account is spelled %q", alike, account)
	}
	if ttl := client.TTL(t.Context(), "ration:spelled:"+account).Val(); ttl < 29*24*time.Hour {
		t.Errorf("the spelling expires in %s; want 30 days", ttl)
	}
}

// TestSpellingOfALongRunExpires: a process that had spent for a month had
// checked its spelling once. That had expired, so a process with another one
// had the whole limit too.
func TestSpellingOfALongRunExpires(t *testing.T) {
	t.Parallel()
	server, clock := redistest.Start(t), &ledgertest.Clock{}
	client := raw(t, server)
	clock.Set(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	open := func() *redisledger.Ledger { return redisledger.New(client, &redisledger.Options{Now: clock.Now}) }
	runs := open()
	mustSpend(t, runs, "m", 1, day)
	do(t, client, "del", "ration:spelled:"+account) // as it expires
	clock.Add(25 * time.Hour)
	mustSpend(t, runs, "m", 1, day)
	batch := &quota.Batch{Account: strings.ToUpper(account), Requests: []quota.Request{{Method: "m", Units: 1, Charges: []*quota.Charge{day}}}}
	_, err := open().Spend(t.Context(), batch)
	if alike, ok := errors.AsType[*quota.LookAlikeError](err); !ok || alike.Known != account {
		t.Errorf("%v; want that the account is spelled %q", err, account)
	}
}

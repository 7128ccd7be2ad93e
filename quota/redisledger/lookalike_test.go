package redisledger_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/redistest"
	"github.com/ration-dev/ration/quota"
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

package ledgertest

import (
	"errors"
	"time"

	"github.com/ration-dev/ration/quota"
)

// lookAlikeAccounts: two spellings of one account would each have the
// whole limit.
func lookAlikeAccounts(w *world) {
	day := charge("day", 10, quota.Sliding(24*time.Hour))
	ask := func(account, key string) error {
		answers, err := w.Spend(w.ctx, &quota.Batch{Account: account, Key: key, Requests: []quota.Request{request("m", 10, day)}})
		if err != nil {
			return err
		}
		return answers[0].Err
	}
	for _, first := range []string{"Fault", "Évry ☃", "keyed"} {
		key := ""
		if first == "keyed" {
			key = "203.0.113.9"
		}
		if err := ask(first, key); err != nil {
			w.Fatal(err)
		}
	}
	for other, known := range map[string]string{"fault": "Fault", "FAULT": "Fault", " Fault": "Fault", "évry ☃": "Évry ☃", "Keyed": "keyed"} {
		for _, key := range []string{"", "203.0.113.9"} {
			err := ask(other, key)
			alike, ok := errors.AsType[*quota.LookAlikeError](err)
			namesBoth := ok && alike.Known == known && alike.Account == other
			if !namesBoth || !errors.Is(err, quota.ErrLedgerConfig) {
				w.Fatalf("%q, key %q: %v; want to be told of %q", other, key, err, known)
			}
		}
	}
	for _, account := range []string{"Fault 2", "default", "Fau1t"} {
		if err := ask(account, ""); err != nil {
			w.Fatal(err)
		}
	}
	w.fails(ask("Fault", ""), quota.ErrRefused, "the first spelling, which is used on")
}

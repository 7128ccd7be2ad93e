package ledgertest

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/ration-dev/ration/quota"
)

// accountsListed: accounts with a log, with the log of a key alone, or with
// only a cooldown are listed once.
func accountsListed(w *world) {
	want := []string{"a{b}:c*", "cooled", "keyed", account}
	for _, batch := range []*quota.Batch{{Account: account}, {Account: "a{b}:c*"}, {Account: "keyed", Key: "k"}, {Account: "keyed", Key: "log"}} {
		batch.Requests = []quota.Request{request("m", 1, charge("day", 10, quota.Sliding(24*time.Hour)))}
		w.granted(batch)
	}
	w.cool(quota.Cooldown{Account: "cooled", Until: noon.Add(time.Hour)})
	got := collect(w, w.Accounts(w.ctx))
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		w.Fatalf("accounts %q; want %q", got, want)
	}
	for range w.Accounts(w.ctx) {
		break
	}
}

// cooldownsListed: all cooldowns in force are listed, also those that end
// before that of the account, and those of budgets that no request names.
func cooldownsListed(w *world) {
	if all, err := w.Cooldowns(w.ctx, account); err != nil || len(all) != 0 {
		w.Fatalf("%+v, %v; want none", all, err)
	}
	want := []quota.Cooldown{
		{Account: account, Until: noon.Add(5 * time.Hour), Reason: "all"},
		{Account: account, Budget: "day", Until: noon.Add(time.Hour), Reason: "a day"},
		{Account: account, Budget: "for", Until: noon.Add(2 * time.Hour)},
	}
	w.cool(want[0])
	w.cool(want[1])
	w.cool(quota.Cooldown{Account: account, Budget: "for", For: 2 * time.Hour})
	w.cool(quota.Cooldown{Account: account, Budget: "over", For: time.Second, Reason: "soon over"})
	w.cool(quota.Cooldown{Account: "other", Until: noon.Add(time.Hour)})
	w.clock.Add(time.Second)
	all, err := w.Cooldowns(w.ctx, account)
	slices.SortFunc(all, func(a, b quota.Cooldown) int { return cmp.Compare(a.Budget, b.Budget) })
	if err != nil || !slices.Equal(all, want) {
		w.Fatalf("%+v, %v; want %+v", all, err, want)
	}
}

// movedSetsAside: the cooldown of a whole account that moves is set aside, and
// so is one that is set meanwhile, if it ends later.
func movedSetsAside(w *world) {
	for i, arriving := range []bool{false, true} {
		name := []string{"left", "arriving"}[i]
		move := quota.Move{Account: name, Ledger: "redis://there:6379/0", Arriving: arriving, ID: "0123456789ab"}
		stop := quota.Cooldown{Account: name, For: time.Hour, Reason: "one"}
		aside := func(want time.Duration, reason string) {
			w.Helper()
			all, err := w.Cooldowns(w.ctx, name)
			slices.SortFunc(all, func(a, b quota.Cooldown) int { return cmp.Compare(a.Budget, b.Budget) })
			both := []quota.Cooldown{move.Cooldown(), {Account: name, Budget: quota.DisplacedBudget, Until: noon.Add(want), Reason: reason}}
			if err != nil || !slices.Equal(all, both) {
				w.Fatalf("%+v, %v; want one of %s aside", all, err, want)
			}
		}
		w.cool(stop)
		w.cool(move.Cooldown())
		aside(time.Hour, "one")
		w.cool(quota.Cooldown{Account: name, Until: noon.Add(time.Minute), Reason: "shorter"})
		w.cool(move.Cooldown())
		aside(time.Hour, "one")
		w.cool(quota.Cooldown{Account: name, Until: noon.Add(2 * time.Hour), Reason: "longer"})
		aside(2*time.Hour, "longer")
	}
}

// movedIsClosed: an account that has left for another ledger is closed at
// once, with its keys, whether it had a log or not, and stays so; its entries
// can be settled.
func movedIsClosed(w *world) {
	day := charge("day", 100, quota.Sliding(24*time.Hour))
	before := w.spend(5, day)
	for _, arriving := range []bool{false, true} {
		move := quota.Move{Account: account, Ledger: "redis://there:6379/0", Arriving: arriving, ID: "0123456789ab"}
		closed := move.Cooldown()
		w.cool(closed)
		move.Account = "empty"
		w.cool(move.Cooldown())
		w.cool(quota.Cooldown{Account: account, Until: noon.Add(time.Hour), Reason: "a stop of the upstream"})
		if _, err := w.Restamp(w.ctx, account, ""); err != nil {
			w.Fatal(err)
		}
		for _, batch := range []*quota.Batch{{Account: account}, {Account: account, Key: "k"}, {Account: "empty"}, {Account: "empty", Key: "k"}} {
			batch.Requests = []quota.Request{request("m", 1, day)}
			answer := w.ask(batch)[0]
			refused, ok := errors.AsType[*quota.RefusedError](answer.Err)
			if !ok {
				w.Fatalf("%v; want a refusal", answer.Err)
			}
			want := move
			want.Account = batch.Account
			if got, ok := refused.Move(); !ok || got != want {
				w.Fatalf("%+v of %+v; want %+v", got, refused, want)
			}
		}
		if s := w.standings(day)[0]; s.Cooldown == nil || !s.Cooldown.Until.Equal(closed.Until) {
			w.Fatalf("%+v; want %+v", s, closed)
		}
		w.clock.Add(40 * 24 * time.Hour)
	}
	w.clock.Set(noon.Add(time.Minute))
	w.settle(before, 7)
	w.used(7, day)
	w.warm("")
	w.spend(1, day)
}

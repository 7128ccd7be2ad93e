// Package quota guards the quota of a metered upstream from the caller's side.
//
// A Guard charges each Call, in the upstream's own units, to every Budget that
// covers it, in a Ledger that all processes on the same quota share. What the
// budgets cannot pay is refused here, before the wire: the promise is that the
// units admitted in a budget's own window never exceed its limit, over all
// processes that share a healthy ledger; that a refused call never reaches the
// upstream; and that a call that reached it is never missing from the ledger.
//
// Most programs wrap their http.Client in a Transport and do nothing else:
//
//	client := &http.Client{Transport: &quota.Transport{Guard: guard, Price: table.Price, MaxWait: 30 * time.Second}}
//
// This package imports the standard library only.
//
// # For callers
//
//   - [NewGuard] takes a ledger and the [Budget] values of its accounts, over a
//     [Window]: [Sliding], [Daily], [Monthly] or [Counter]. The ledgers are in
//     memledger (one process), sqliteledger (one host) and redisledger (many).
//     Package costs reads budgets and prices from a file.
//   - A [Transport] charges the requests of a client. [Guard.Spend] and
//     [Guard.Wait] charge a [Call] by hand and return a [Grant], to settle or
//     refund. [WithCaller] attributes calls to a [Caller].
//   - A [RefusedError] says which budget refused a call and when to come back, a
//     [NeverFitsError] that waiting does not help. [Guard.Probe] asks without
//     charging.
//   - [Guard.Balances] returns the [Balance] of each budget, and
//     [Guard.FullestKeys] those of keyed calls. Package usage adds who spent it.
//   - [Guard.Cool] and [Guard.Uncool] set and lift a [Cooldown], [Guard.Note]
//     records a [Note], [Guard.Restamp] repairs a log after the ledger's clock was
//     wrong. Package reconcile corrects a log by the upstream's console.
//   - A [Verdict] is what an upstream's answer says about its quota, for
//     [Transport]; package feedback reads it.
//
// # For authors of ledgers
//
//   - [Ledger] is the contract, and package ledgertest its test.
//   - [Ledger.Spend] takes a [Batch] of [Request] values and returns an [Answer]
//     for each, with a [Receipt] and what is [Held]. A [Charge] is a budget as a
//     ledger sees it, its [Coverage] says which calls count, a [Floor] what is
//     kept of it. [NewClient] names the client of an [ID].
//   - [Ledger.Standings] returns a [Standing] for each charge. A [Query] selects
//     entries of a log: [Ledger.Entries] yields each [Entry], [Ledger.Sums] each
//     [Sum] of them.
//   - [Retention] and [MaxSettle] bound what a log keeps and rewrites. Ledgers
//     that read a real clock are a [RealTimeLedger].
package quota

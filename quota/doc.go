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
// The ledgers are in memledger (one process), sqliteledger (one host) and
// redisledger (many); package costs reads what calls cost from a file. This
// package itself imports the standard library only.
package quota

package quota

import "context"

// SpendFunc is Ledger.Spend.
type SpendFunc = func(context.Context, *Batch) ([]Answer, error)

// CombiningLedger is a Ledger that decides concurrent calls of one log
// together, as one batch. A decorator that has work to do for each batch can
// put it around the decision, and so do it once for all of them.
type CombiningLedger interface {
	Ledger
	// Around replaces the function that decides a batch, whose calls may come
	// from several Spends, by what layer makes of it. Call it before the
	// first Spend.
	Around(layer func(SpendFunc) SpendFunc)
}

// Package quota guards the quota of a metered upstream API from the caller's
// side.
//
// A [Guard] charges each [Call], in the upstream's own [Units], to every
// [Budget] that covers it. Spends are recorded in a [Ledger], which all
// processes that use the quota share. A call that a budget cannot pay for is
// refused before it is sent. While the ledger is healthy, over all processes
// that share it:
//
//   - the units admitted in a budget's window never exceed its limit;
//   - a refused call never reaches the upstream;
//   - a call that reached the upstream is never missing from the ledger.
//
// Most programs do not begin here. Package costs/client sets up all that a
// costs.yaml names in one call, including fallback while the ledger is down,
// recovery after it has lost records, and what the upstream's answers say:
//
//	c, err := client.Open("costs.yaml", nil)
//	web := &http.Client{Transport: c}
//
// A program that has its budgets elsewhere makes a [Transport] of its own:
//
//	ledger, err := sqliteledger.Open("ration.db", nil)
//	guard, err := quota.NewGuard(ledger, []quota.Budget{
//		{Account: "my-project", Name: "day", Limit: 10_000, Window: quota.Sliding(24 * time.Hour)},
//	}, nil) // no Options
//	price := func(req *http.Request) (quota.Call, error) {
//		return quota.Call{Account: "my-project", Method: "read", Units: 1}, nil
//	}
//	web := &http.Client{Transport: &quota.Transport{Guard: guard, Price: price}}
//
// # For callers
//
// Open a ledger: package memledger serves one process, sqliteledger one host,
// redisledger and postgresledger many hosts. [NewGuard] takes the ledger, the
// budgets and [Options], which may be nil. Options.Replica keeps this host's
// copy of what the ledger has, from which a ledger that has lost records gets
// them back, and by which an [Allowance] may be spent while the ledger is down;
// package costs/client opens one. Each budget has a [Window], such as
// [Sliding], [Daily], [Bucket] or [InFlight]. Its [Measure] says what it counts
// of the [Amounts] of calls: units, calls or a named measure.
//
// A Transport charges the requests of an http.Client. [Guard.Spend] and
// [Guard.Wait] charge a call by hand and return a [Grant], which can be settled
// to the real cost or refunded. [WithCaller] attributes calls to a [Caller],
// and [RequestOptions] give the calls of a Transport a Key.
//
// A refused call returns a [RefusedError], which says which budget refused it,
// for what [Reason], and when to try again. A call that costs more than a whole
// limit returns a [NeverFitsError]. [Guard.Probe] checks a call without
// charging it.
//
// [Guard.Balances] returns the [Balance] of each budget, with a [FloorBalance]
// for each of its floors; package usage breaks it down by method, job, lane and
// region. [Guard.TopKeys] returns a [KeySummary]: the balances of the keys that
// have used most, and how many there are.
//
// A Transport with a Feedback function applies the [Verdict] that it reads from
// each answer: the real cost, a cooldown, what the upstream says is left of
// several budgets, each a [BudgetLeft], or, as a [LateVerdict], what a call
// cost whose answer says so at its end. Package feedback has such functions for
// common APIs. The Report function of a Transport gets a [CostError] or a
// [LimitError] if prices or limits are not those of the upstream.
// [Guard.Observe] passes each [Decision] on, as package metrics counts them.
//
// A server that sends the requests of others says by [WithRequestOptions] how
// long the spend of one may wait, and whether it is decided although the
// request is canceled.
//
// To operate on a ledger, [Guard.Cool] and [Guard.ClearCooldown] set and clear
// a [Cooldown], and [Guard.Note] records a [Note]. `ration ledger reconcile`
// corrects a log to match the upstream's console, one process at a time, for
// which it has [Guard.Correct]. `ration ledger copy` moves an account to
// another ledger; after that the old one returns a [MovedError]. Where two
// configurations give a budget different limits, the [Config] of each says
// where it comes from, and the lower limit holds.
//
// # For those who look closer
//
// Callers can skip this part: a Guard uses these types on their behalf.
//
// A [Ledger] keeps a log of records for each account. It appends batches on
// condition ([Append]) and reads them ([Read]), and answers either with a
// [Tail]. It knows no budgets: each process computes from the records what
// windows hold, and decides. Package ledgertest tests a Ledger.
//
// A calendar window has a [Day] at each time. An [ID] identifies a record.
// [Guard.Entries] lists the [Entry] values that a [Query] selects, each of an
// [EntryKind], and [Guard.Sums] adds them up to [Sum] values.
package quota

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
// recovery after it has lost entries, and what the upstream's answers say:
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
// redisledger many hosts. Package journal wraps one, to grant an allowance
// while it is down and to restore what it has lost. [NewGuard] takes the
// ledger, the budgets and [Options], which may be nil. Each budget has a
// [Window]: [Sliding], [Daily], [Monthly] or [Counter]. Its [Measure] says
// whether it counts units or calls.
//
// A Transport charges the requests of an http.Client. [Guard.Spend] and
// [Guard.Wait] charge a call by hand and return a [Grant], which can be settled
// to the real cost or refunded. [WithCaller] attributes calls to a [Caller].
//
// A refused call returns a [RefusedError], which says which budget refused it,
// for what [Reason], and when to try again. A call that costs more than a whole
// limit returns a [NeverFitsError]. [Guard.Probe] checks a call without
// charging it.
//
// [Guard.Balances] returns the [Balance] of each budget, with a [FloorBalance]
// for each of its floors; package usage breaks it down by method, job, lane and
// region. [Guard.FullestKeys] returns the [KeyBalance] of the keys that have
// used most, of calls with a Key.
//
// A Transport with a Feedback function applies the [Verdict] that it reads from
// each answer: the real cost, a cooldown, what the upstream says is left.
// Package feedback has such functions for common APIs. The Report function of a
// A [Verdict] says what is left of several budgets, each a [BudgetLeft], and a
// [LateVerdict] what a call cost whose answer says so at its end.
// Transport gets a [CostError] or a [LimitError] if prices or limits are not
// those of the upstream. [Guard.Observe] passes each [Decision] on, as package
// metrics counts them.
//
// The context of a request says how long its spend may wait ([WithMaxWait],
// [WithWaitsUntil]) and whether it is decided although the request is canceled
// ([WithUninterruptedSpends]).
//
// [Guard.Claim] asks the ledger for the right to do something alone, among all
// processes: a [ClaimRequest] names it and gets a [Claim] or a [ClaimedError],
// and [Guard.ClaimState] shows the [ClaimState].
//
// To operate on a ledger, [Guard.Cool] and [Guard.Uncool] set and clear a
// [Cooldown], [Guard.Note] records a [Note], and [Guard.Restamp] repairs a log
// after the ledger's clock was wrong, which a [ClockError] reports. Package
// reconcile corrects a log to match the upstream's console, one process at a
// time, for which it has [Guard.Correct]. Package ledgercopy moves an account
// to another ledger; after that the old one returns a [MovedError]. Where two
// configurations give a budget different limits, the [Config] of each says
// where it comes from, and the lower limit holds.
//
// # For authors of ledgers
//
// Callers can skip this part: a Guard uses these types on their behalf.
//
// [Ledger] is the contract, and package ledgertest its test suite.
// [Ledger.Spend] decides a [Batch] of [Request] values and returns an [Answer]
// to each, with a [Receipt] and what each window then holds ([Held]). A
// [Charge] is a budget as a ledger sees it: its [Coverage] says which calls
// count, and each [Floor] reserves a part of the limit. The [WindowKind] of its
// window says how to count, and a calendar window has a [Day] at each time. An
// [ID] identifies a request; [NewClient] returns a client id for it.
//
// [Ledger.Standings] returns a [Standing] for each charge. [Ledger.Entries]
// lists the [Entry] values that a [Query] selects, each of an [EntryKind], and
// [Ledger.Sums] adds them up to [Sum] values. [Retention] and [MaxSettle] bound
// how long a log keeps its entries and how many of them one change may rewrite.
// A log that keeps no entries settles a call by what is [Recorded] in its
// receipt. A ledger that can be on a test's clock is a [RealTimeLedger]. One
// that lets concurrent callers share a batch is a [CombiningLedger], which lets
// a decorator wrap its [SpendFunc].
//
// A log has an epoch ([NewEpoch]). If it lacks what a batch knows, Spend
// returns a [ForgottenError], and package journal calls [Ledger.Restore] with a
// [Restoration]: the entries that a host was granted, and what it has heard of
// budgets ([WindowUse]), in which [Life] of the log and beside which [Gap].
// [RestoreResult] says what the log lacked. [Move] marks a log that has left
// for another ledger, and [CheckLookAlike] returns a [LookAlikeError] for an
// account whose name is easily taken for one that the ledger has.
package quota

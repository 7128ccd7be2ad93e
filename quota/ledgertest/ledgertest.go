// Package ledgertest tests implementations of quota.Ledger against its
// contract. A ledger's own test runs it:
//
//	func TestContract(t *testing.T) {
//		ledgertest.Run(t, func(t testing.TB, now func() time.Time) quota.Ledger {
//			return myledger.Open(&myledger.Options{Now: now})
//		})
//	}
package ledgertest

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// Factory opens an empty ledger that uses the given clock, and closes it when
// the test ends.
type Factory func(t testing.TB, now func() time.Time) quota.Ledger

// spends returns the subtests about batches and their answers.
func spends() []subtest {
	return []subtest{
		{"AllOrNothing", allOrNothing},
		{"RefusalWritesNothing", refusalWritesNothing},
		{"EveryCoverageCountsEveryEntry", everyCoverageCounts},
		{"Calls", callsMeasure},
		{"UncoveredIsRecorded", uncoveredIsRecorded},
		{"CostsOutOfRange", costsOutOfRange},
		{"NeverFits", neverFits},
		{"Force", force},
		{"AccountsAndKeysAreSeparate", accountsAndKeysApart},
		{"AwkwardNames", awkwardNames},
		{"LookAlikeAccounts", lookAlikeAccounts},
		{"BatchInOrder", batchInOrder},
		{"BatchResent", batchResent},
		{"BatchResentWhileFull", batchResentWhileFull},
		{"OnlyBatchOfAClient", onlyBatchOfAClient},
		{"BatchResentRefusalDecidedAfresh", batchResentRefusal},
	}
}

// windows returns the subtests about what windows hold and when it returns.
func windows() []subtest {
	return []subtest{
		{"SlidingEdge", slidingEdge},
		{"SlidingMargin", slidingMargin},
		{"SlidingIsNotAClockWindow", slidingIsNotAClock},
		{"RetryAtIsWeighted", retryAtIsWeighted},
		{"RetryAtWithZeroUnitEntries", retryAtWithZeros},
		{"RetryAtInsideABatch", retryAtInsideABatch},
		{"RetryAtIsTheLatestOfAllBudgets", retryAtLatest},
		{"DailyAroundMidnight", dailyAroundMidnight},
		{"DailyOf23And24And25Hours", dailyLengths},
		{"DailyWithoutMidnight", dailyWithoutMidnight},
		{"DailyBesideSliding", dailyBesideSliding},
		{"CounterEstimates", counterEstimates},
		{"CounterKeepsNoLog", counterKeepsNoLog},
		{"CounterStatesItsError", counterStatesItsError},
		{"CounterSettles", counterSettles},
		{"CounterOfASharedCallIsNotLowered", counterOfASharedCall},
		{"CounterOfAnotherLifeIsNotLowered", counterOfAnotherLife},
		{"CounterBesideAWindow", counterBesideAWindow},
		{"RetentionFollowsTheWindows", retentionFollowsTheWindows},
		{"RetentionShrinks", retentionShrinks},
		{"EarlierOutlivesTheLog", earlierOutlivesTheLog},
		{"WindowAskedAnewStaysInUse", windowAskedAnew},
		{"WindowOfOneChargeStaysInUse", windowOfOneCharge},
		{"WindowIsAskedBesideACounter", windowBesideACounter},
		{"CounterSettlesBeyondTheWindow", counterSettlesBeyondTheWindow},
		{"ForgottenBudgetAskedAgain", forgottenBudgetAskedAgain},
		{"LongerWindowAfterAnIdleTime", longerWindowAfterAnIdleTime},
		{"StampFarAheadIsReportedAndRestamped", stampFarAhead},
		{"CounterFarAheadIsReportedAndRestamped", counterFarAhead},
		{"RestampedAfterEntriesWereDropped", restampedAfterEntriesWereDropped},
		{"RestampedAfterAnEntryOfNow", restampedAfterAnEntryOfNow},
		{"CounterRestampedWithEntries", counterRestampedWithEntries},
		{"CounterRestampedAfterAPeriod", counterRestampedAfterAPeriod},
		{"CooldownFarAheadIsRestamped", cooldownFarAhead},
		{"CooldownFarAheadOfAnEmptyLogIsBounded", cooldownFarAheadOfAnEmptyLog},
		{"CooldownAfterOneThatIsFarAhead", cooldownAfterOneFarAhead},
		{"WindowAskedFarAheadGoesOutOfUse", windowAskedFarAhead},
		{"RetryAtAfterAStepBackIsExact", retryAtAfterAStepBack},
		{"KeysListed", keysListed},
		{"AccountsListed", accountsListed},
		{"CooldownsListed", cooldownsListed},
		{"AccountThatMovedIsClosed", movedIsClosed},
		{"MoveSetsACooldownAside", movedSetsAside},
		{"ManyLiveKeysKeepTheirBudgets", manyLiveKeys},
		{"EntriesBeyondRetentionAreNotShown", entriesBeyondRetention},
		{"CancelledListingIsAnError", cancelledListing},
		{"CancelledSpendIsAnError", cancelledSpend},
		{"EntriesOfManyPages", entriesOfManyPages},
		{"BatchesOfManyClientsResent", manyClientsResent},
		{"SettleOfAnUnknownReceipt", settleUnknown},
		{"GrantSaysWhatIsLeft", grantSaysWhatIsLeft},
		{"NextFreeAroundMidnight", nextFreeAroundMidnight},
		{"NoteOfManyCalls", noteOfManyCalls},
		{"EntryKindIsStored", entryKindIsStored},
		{"CooldownIsADuration", cooldownIsADuration},
	}
}

// changes returns the subtests about changed budgets, clocks and entries, and
// about listings.
func changes() []subtest {
	return []subtest{
		{"LimitChanged", limitChanged},
		{"StricterLimitHolds", stricterLimitHolds},
		{"StricterLimitHoldsWhileItIsAsked", stricterLimitIsAsked},
		{"StricterLimitOfAnotherBudget", stricterLimitOfAnother},
		{"StricterLimitOfAKeyHoldsAllKeys", stricterLimitOfKeys},
		{"StricterLimitBelowACall", stricterLimitBelowACall},
		{"StricterLimitBesideFloors", stricterLimitBesideFloors},
		{"StricterLimitAskedFarAhead", stricterLimitFarAhead},
		{"LimitOfAChangedConfiguration", limitOfAChangedConfiguration},
		{"LimitsAskedInAnyOrder", limitsInAnyOrder},
		{"WindowChanged", windowChanged},
		{"BudgetFirstSeenLater", budgetFirstSeenLater},
		{"StormOfExpiries", stormOfExpiries},
		{"ClockStandsStill", clockStandsStill},
		{"ClockStepsBack", clockStepsBack},
		{"ClockStepsForward", clockStepsForward},
		{"SettleDown", settleDown},
		{"SettleUp", settleUp},
		{"SettleToZeroAndAgain", settleToZeroAndAgain},
		{"SettleAfterExpiry", settleAfterExpiry},
		{"SettleFarFromTheTail", settleFar},
		{"SettleCountsEverywhere", settleCountsEverywhere},
		{"Refund", refund},
		{"Cooldown", cooldown},
		{"CooldownIsNeverShortened", cooldownNeverShortened},
		{"CooldownWithALongReason", cooldownLongReason},
		{"CooldownThatEndsAfterAllTime", cooldownFar},
		{"CooldownOfAnAccountHoldsItsKeys", cooldownHoldsKeys},
		{"Entries", entries},
		{"EntriesBetweenMicroseconds", entriesBetween},
		{"EntriesNewestFirst", entriesNewestFirst},
		{"SumsOfALongLog", sumsOfALongLog},
		{"SumsFollowEveryChange", sumsFollowEveryChange},
		{"SumsOfALogWithoutEntries", sumsWithoutEntries},
		{"SumsOfKeyedLogs", sumsOfKeyedLogs},
		{"Standings", standings},
		{"ConcurrentSpends", concurrentSpends},
		{"ConcurrentHistory", concurrentHistory},
	}
}

// Run runs the contract as subtests, each on a ledger of its own from open.
// go test
// -short skips those that make thousands of calls.
func Run(t *testing.T, open Factory) {
	runAll(t, open, spends())
	runAll(t, open, windows())
	runAll(t, open, changes())
	runAll(t, open, batches())
	runAll(t, open, restorations())
	runAll(t, open, counterRestorations())
	runAll(t, open, clockLeads())
	runAll(t, open, regressions())
	t.Run("AgainstAModel", func(t *testing.T) { againstModel(t, open, plain) })
	t.Run("EstimatesAgainstAModel", func(t *testing.T) { againstModel(t, open, estimates) })
	runFloors(t, open)
}

// subtest is one subtest of the contract.
type subtest struct {
	name string
	run  func(*world)
}

func runAll(t *testing.T, open Factory, subtests []subtest) {
	for _, sub := range subtests {
		t.Run(sub.name, func(t *testing.T) {
			sub.run(newWorld(t, open))
		})
	}
}

// Clock is a clock that a test sets. Set it before a ledger reads it: the zero
// Clock shows the zero time.Time, from which ledgers cannot count. It is safe
// for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Set sets the clock to t, forward or back.
func (c *Clock) Set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

// Add moves the clock by d.
func (c *Clock) Add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is a fresh ledger and its clock.
type world struct {
	*testing.T
	quota.Ledger
	clock   *Clock
	ctx     context.Context
	history time.Duration // of the batches
}

// noon is when the tests begin, far from the midnight of every zone in use.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func newWorld(t *testing.T, open Factory) *world {
	clock := &Clock{now: noon}
	return &world{T: t, Ledger: open(t, clock.Now), clock: clock, ctx: t.Context()}
}

const account = "my-project"

// charge returns a charge that covers all calls and counts units, unless change
// changes its coverage.
func charge(name string, limit quota.Units, window quota.Window, change ...func(*quota.Coverage)) *quota.Charge {
	var coverage quota.Coverage
	for _, f := range change {
		f(&coverage)
	}
	return &quota.Charge{Budget: name, Coverage: quota.NewCoverage(coverage), Limit: limit, Window: window}
}

func methods(names ...string) func(*quota.Coverage) {
	return func(c *quota.Coverage) { c.Methods = names }
}

func counted(c *quota.Coverage) { c.Measure = quota.Calls }

func request(method string, units quota.Units, charges ...*quota.Charge) quota.Request {
	return quota.Request{Method: method, Units: units, Charges: charges}
}

// forced returns a request that is granted whatever the limits are.
func forced(r quota.Request) quota.Request {
	r.Force = true
	return r
}

// entered returns a request for an entry that is not a call.
func entered(r quota.Request, kind quota.EntryKind, calls quota.Units) quota.Request {
	r.Force = true
	r.Kind = kind
	r.Calls = calls
	return r
}

// batch spends requests in one batch without an id.
func (w *world) batch(requests ...quota.Request) []quota.Answer {
	w.Helper()
	return w.ask(&quota.Batch{Account: account, History: w.history, Requests: requests})
}

// ask spends a batch.
func (w *world) ask(batch *quota.Batch) []quota.Answer {
	w.Helper()
	answers, err := w.Spend(w.ctx, batch)
	if err != nil {
		w.Fatalf("spend: %v", err)
	}
	if len(answers) != len(batch.Requests) {
		w.Fatalf("%d answers to %d requests", len(answers), len(batch.Requests))
	}
	return answers
}

// granted spends a batch, all of which must be granted.
func (w *world) granted(batch *quota.Batch) []quota.Answer {
	w.Helper()
	answers := w.ask(batch)
	for i, answer := range answers {
		if answer.Err != nil {
			w.Fatalf("request %d of %q, key %q: %v; want a grant", i, batch.Account, batch.Key, answer.Err)
		}
	}
	return answers
}

// spend spends one call, which must be granted.
func (w *world) spend(units quota.Units, charges ...*quota.Charge) quota.Receipt {
	w.Helper()
	return w.grant(request("m", units, charges...))
}

func (w *world) grant(r quota.Request) quota.Receipt {
	w.Helper()
	return w.granted(&quota.Batch{Account: account, History: w.history, Requests: []quota.Request{r}})[0].Receipt
}

// refuse spends one call, which a budget must refuse with this RetryAfter and
// these units remaining.
func (w *world) refuse(units quota.Units, budget string, after time.Duration, remaining quota.Units, charges ...*quota.Charge) {
	w.Helper()
	w.refused(w.batch(request("m", units, charges...))[0], budget, after, remaining)
}

func (w *world) refused(answer quota.Answer, budget string, after time.Duration, remaining quota.Units) *quota.RefusedError {
	w.Helper()
	refused, ok := errors.AsType[*quota.RefusedError](answer.Err)
	if !ok {
		w.Fatalf("got %v; want a refusal by %s", answer.Err, budget)
	}
	if refused.Budget != budget || refused.RetryAfter != after || refused.Remaining != remaining {
		w.Fatalf("refused by %q for %s with %d remaining; want by %q for %s with %d", refused.Budget, refused.RetryAfter,
			refused.Remaining, budget, after, remaining)
	}
	if want := w.clock.Now().Add(after); !refused.RetryAt.Equal(want) {
		w.Fatalf("RetryAt %s; want RetryAfter from now, %s", refused.RetryAt, want)
	}
	return refused
}

// used checks what each charge's window holds.
func (w *world) used(want quota.Units, charges ...*quota.Charge) {
	w.Helper()
	for i, s := range w.standings(charges...) {
		if s.Used != want {
			w.Fatalf("%s holds %d; want %d", charges[i].Budget, s.Used, want)
		}
	}
}

// fails ends the test unless an error is the wanted one.
func (w *world) fails(err, want error, what string) {
	w.Helper()
	if !errors.Is(err, want) {
		w.Fatalf("%s: %v; want %v", what, err, want)
	}
}

// standings returns how each charge stands.
func (w *world) standings(charges ...*quota.Charge) []quota.Standing {
	w.Helper()
	return w.standingsOf("", charges...)
}

// standingsOf returns how each charge stands in a key's log.
func (w *world) standingsOf(key string, charges ...*quota.Charge) []quota.Standing {
	w.Helper()
	standings, err := w.Standings(w.ctx, account, key, charges)
	if err != nil {
		w.Fatalf("standings: %v", err)
	}
	return standings
}

// warm ends the cooldown of a budget, or of the account if budget is empty.
func (w *world) warm(budget string) {
	w.Helper()
	if err := w.ClearCooldown(w.ctx, account, budget); err != nil {
		w.Fatalf("clear the cooldown of %q: %v", budget, err)
	}
}

// log returns all entries of the account.
func (w *world) log() []quota.Entry {
	w.Helper()
	return w.entries("")
}

// entries returns all entries of a key's log.
func (w *world) entries(key string) []quota.Entry {
	w.Helper()
	return collect(w, w.Entries(w.ctx, quota.Query{Account: account, Key: key}))
}

func (w *world) settle(receipt quota.Receipt, units quota.Units) {
	w.Helper()
	if err := w.Settle(w.ctx, receipt, units); err != nil {
		w.Fatalf("settle to %d: %v", units, err)
	}
}

func (w *world) refund(receipt quota.Receipt) {
	w.Helper()
	if err := w.Refund(w.ctx, receipt); err != nil {
		w.Fatalf("refund: %v", err)
	}
}

package decide_test

import (
	"slices"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

var (
	noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	all  = quota.NewCoverage(quota.Coverage{})
)

func restorer(entries ...quota.Entry) *decide.Restorer {
	return &decide.Restorer{Entries: entries, Epoch: 3, Now: noon, Oldest: noon.Add(-27 * time.Hour)}
}

func call(client, seq uint64, ago time.Duration, units quota.Units) quota.Entry {
	return quota.Entry{ID: quota.ID{Client: client, Seq: seq}, At: noon.Add(-ago), Method: "m", Units: units, Calls: 1}
}

func heard(client, epoch uint64, ago time.Duration, used quota.Units) quota.WindowUse {
	at := noon.Add(-ago)
	return quota.WindowUse{Client: client, Budget: "day", Coverage: all, Epoch: epoch, Since: at.Add(-24 * time.Hour), At: at, Used: used}
}

// lost is a restoration by a client that has noticed that the log lost entries.
func lost(heard ...quota.WindowUse) *quota.Restoration {
	return &quota.Restoration{Lost: true, Heard: heard}
}

func units(o *decide.Restorer) (sum quota.Units) {
	for i := range o.Entries {
		sum += o.Entries[i].Units
	}
	return sum
}

// TestOlderStatementReplacesALaterOne: what others spent between the two would
// be admitted again.
func TestOlderStatementReplacesALaterOne(t *testing.T) {
	o := restorer()
	for _, h := range []quota.WindowUse{heard(1, 2, 3*time.Hour, 10), heard(1, 2, time.Hour, 50), heard(1, 2, 2*time.Hour, 20)} {
		o.Restore(&quota.Restoration{Heard: []quota.WindowUse{h}})
	}
	if len(o.Heard) != 1 || units(o) != 50 {
		t.Errorf("%d statements and %d units; want the latest, of 50", len(o.Heard), units(o))
	}
}

// TestLossIsTakenForAnOutage: a host that restores calls of an outage does not
// see that an older copy has taken the place of the log meanwhile.
func TestLossIsTakenForAnOutage(t *testing.T) {
	held := call(1, 1, time.Hour, 5)
	for name, test := range map[string]struct {
		known quota.Receipt
		lost  bool
	}{
		"older copy":         {quota.Receipt{ID: quota.ID{Client: 1, Seq: 2}, At: noon.Add(-time.Minute), Epoch: 3}, true},
		"another life":       {quota.Receipt{ID: held.ID, At: held.At, Epoch: 2}, true},
		"whole":              {quota.Receipt{ID: held.ID, At: held.At, Epoch: 3}, false},
		"dropped by the log": {quota.Receipt{ID: quota.ID{Client: 1, Seq: 2}, At: noon.Add(-28 * time.Hour), Epoch: 3}, false},
		"nothing known":      {quota.Receipt{Account: "a"}, false},
	} {
		o := restorer(held)
		owed := call(1, 3, time.Second, 2)
		lives := []quota.Life{{Client: 1, Epoch: 3, Since: held.At}}
		done := o.Restore(&quota.Restoration{Account: "a", Known: test.known, Entries: []quota.Entry{owed}, Lives: lives})
		if isLost, isNew := done.Forgotten != nil, o.Epoch != 3; isLost != test.lost || isNew != test.lost || done.Units != 2 {
			t.Errorf("%s: %+v, a new epoch %v; want a loss %v", name, done, isNew, test.lost)
		}
	}
}

// TestRefundedCallIsRestored: a call that was refunded in an older copy, and
// charged after all, counts as a call again. A repeated entry counts once.
func TestRefundedCallIsRestored(t *testing.T) {
	refunded := call(1, 1, time.Hour, 0)
	refunded.Kind, refunded.Calls = quota.EntryRefunded, 0
	o := restorer(refunded)
	sent, other := call(1, 1, time.Hour, 5), call(1, 2, time.Hour, 3)
	done := o.Restore(&quota.Restoration{Entries: []quota.Entry{sent, sent, other, other}})
	if e := o.Entries[0]; e.Calls != 1 || e.Kind != quota.EntryCall || e.Units != 5 || len(o.Entries) != 2 || done.Entries != 2 || done.Units != 8 {
		t.Errorf("%+v, %+v; want two calls of 5 and 3", o.Entries, done)
	}
}

// TestEntryOfAWrongClockStaysAhead: it would count for as long as the clock
// was wrong.
func TestEntryOfAWrongClockStaysAhead(t *testing.T) {
	o := restorer()
	o.Restore(&quota.Restoration{Entries: []quota.Entry{call(1, 1, -time.Hour, 5), call(1, 2, -quota.MaxStepBack, 5)}})
	if at := o.Entries[0].At; !at.Equal(noon) || !o.Entries[1].At.Equal(noon.Add(quota.MaxStepBack)) {
		t.Errorf("stamped %s and %s; want the present, and what may be a step of the clock", at, o.Entries[1].At)
	}
}

// TestPresentLifeHoldsWhatWasRestored: what is heard after a restoration counts
// it, even if the host that restored it was granted nothing since. What was
// heard before does not.
func TestPresentLifeHoldsWhatWasRestored(t *testing.T) {
	absent := &quota.Restoration{Entries: []quota.Entry{call(1, 1, 3*time.Hour, 40)},
		Lives: []quota.Life{{Client: 1, Epoch: 1, Since: noon.Add(-3 * time.Hour)}}}
	for name, c := range map[string]struct {
		later time.Duration
		want  quota.Units
	}{"before": {-time.Second, 140}, "after": {time.Second, 100}} {
		o := restorer()
		o.Restore(absent)
		o.Now = noon.Add(time.Minute)
		o.Restore(absent) // once more, and later, changes nothing
		o.Restore(lost(heard(9, 3, -c.later, 100)))
		if got := units(o); got != c.want {
			t.Errorf("heard %s: %d units; want %d", name, got, c.want)
		}
	}
}

// TestCopyHeldWhatCameAfterIt: a host was granted calls in one life of the log,
// lost it, and was granted more in the next. Another host then heard of an
// older copy of the first life, which cannot have counted the later calls; nor
// what the first host heard there.
func TestCopyHeldWhatCameAfterIt(t *testing.T) {
	first, second := noon.Add(-5*time.Hour), noon.Add(-3*time.Hour)
	lives := []quota.Life{{Client: 1, Epoch: 1, Since: first}, {Client: 1, Epoch: 2, Since: second},
		{Client: 1, Seq: 2, Epoch: 2, Since: second}, {Client: 8, Epoch: 1, Since: first}, {Client: 8, Epoch: 2, Since: second}}
	mine := []quota.Entry{call(1, 1, 5*time.Hour, 5), call(1, 2, 3*time.Hour, 20), call(1, 3, 2*time.Hour, 20)}
	o := restorer()
	o.Restore(&quota.Restoration{Entries: mine, Lives: lives})
	o.Restore(&quota.Restoration{Heard: []quota.WindowUse{heard(9, 1, time.Hour, 30)}})
	if got := units(o); got != 45+25 {
		t.Errorf("%d units; want a note of the 25 that the copy held besides the first call", got)
	}
	o = restorer()
	o.Restore(&quota.Restoration{Heard: []quota.WindowUse{heard(8, 2, 2*time.Hour, 50)}, Lives: lives})
	o.Restore(&quota.Restoration{Heard: []quota.WindowUse{heard(9, 1, time.Hour, 10)}})
	if got := units(o); got != 60 {
		t.Errorf("%d units; want those of both histories", got)
	}
}

// TestUsedCopyIsNotTheSameLog: an older copy has the epoch of the log whose
// place it takes. One host heard of a log that held 30 units of others, another
// then of the copy without them, and what the second heard last was taken for
// all that the log had held.
func TestUsedCopyIsNotTheSameLog(t *testing.T) {
	for name, test := range map[string]struct {
		copied []quota.Entry // restored to the copy later than the loss, by their own times
		want   quota.Units
	}{
		"spent on the copy":   {nil, 5 + 20 + 10 + 30},
		"also restored there": {[]quota.Entry{call(3, 1, 4*time.Hour, 7)}, 5 + 20 + 10 + 30 + 7},
	} {
		o := restorer(call(1, 1, 5*time.Hour, 5))
		used := quota.Units(5 + 10)
		if test.copied != nil {
			o.Now = noon.Add(-90 * time.Minute)
			o.Restore(&quota.Restoration{Entries: test.copied, Lives: []quota.Life{{Client: 3}}})
			o.Now, used = noon, used+7
		}
		o.Entries = append(o.Entries, call(2, 1, time.Hour, 10))
		first, lost := noon.Add(-5*time.Hour), call(1, 2, 3*time.Hour, 20)
		mine := &quota.Restoration{Known: quota.Receipt{ID: lost.ID, At: lost.At, Epoch: 3}, Entries: []quota.Entry{call(1, 1, 5*time.Hour, 5), lost},
			Heard: []quota.WindowUse{heard(8, 3, 3*time.Hour, 5+20+30)}, Lives: []quota.Life{{Client: 1, Epoch: 3, Since: first}, {Client: 8, Epoch: 3, Since: first}}}
		others := &quota.Restoration{Known: quota.Receipt{ID: quota.ID{Client: 2, Seq: 1}, At: noon.Add(-time.Hour), Epoch: 3}, Entries: []quota.Entry{call(2, 1, time.Hour, 10)},
			Heard: []quota.WindowUse{heard(9, 3, time.Hour, used)}, Lives: []quota.Life{{Client: 2, Epoch: 3, Since: noon.Add(-time.Hour)}, {Client: 9, Epoch: 3, Since: noon.Add(-time.Hour)}}}
		for i, r := range []*quota.Restoration{mine, others, mine, others} {
			o.Restore(r)
			if got := units(o); got != test.want {
				t.Errorf("%s: %d units after restoration %d; want %d", name, got, i+1, test.want)
			}
		}
		if of3 := slices.DeleteFunc(slices.Clone(o.Gaps), func(g quota.Gap) bool { return g.Epoch != 3 }); len(of3) != 1 {
			t.Errorf("%s: %+v; want what the copy lacks", name, o.Gaps)
		}
		o.Now, o.Oldest = noon.Add(28*time.Hour), noon.Add(time.Hour)
		o.Restore(&quota.Restoration{Lost: true, Lives: []quota.Life{{Client: 7, Epoch: o.Epoch, Since: noon}}})
		if len(o.Gaps) != 0 {
			t.Errorf("%s: %+v when nothing from before it is left", name, o.Gaps)
		}
	}
}

// TestCopyOfAnUnknownLifeIsUsed: the host that restores an older copy knows
// another log in between and not that of the copy. If the copy kept its epoch,
// what is heard of it would be taken for what the log of that epoch held. It is
// used and lost before anybody returns that knows it. The host of the call in
// the copy was away between the losses, so that counts twice.
func TestCopyOfAnUnknownLifeIsUsed(t *testing.T) {
	o := restorer(call(1, 1, 5*time.Hour, 5))
	o.Now = noon.Add(-2 * time.Hour)
	gaps := o.Restore(&quota.Restoration{Known: quota.Receipt{ID: quota.ID{Client: 7, Seq: 1}, At: noon.Add(-3 * time.Hour), Epoch: 2}}).Gaps
	used := o.Epoch
	if used == 3 {
		t.Error("the epoch is still that of the copy")
	}
	since := func(ago time.Duration, epoch uint64, clients ...uint64) (lives []quota.Life) {
		for _, client := range clients {
			lives = append(lives, quota.Life{Client: client, Epoch: epoch, Since: noon.Add(-ago)})
		}
		return lives
	}
	mine := &quota.Restoration{Entries: []quota.Entry{call(1, 1, 5*time.Hour, 5), call(1, 2, 4*time.Hour, 20)},
		Heard: []quota.WindowUse{heard(8, 3, 4*time.Hour, 5+20+30)}, Lives: since(5*time.Hour, 3, 1, 8)}
	others := &quota.Restoration{Entries: []quota.Entry{call(2, 1, time.Hour, 10)}, Heard: []quota.WindowUse{heard(9, used, time.Hour, 5+10)}, Lives: since(time.Hour, used, 2, 9)}
	for _, order := range [][]*quota.Restoration{{mine, others}, {others, mine}} {
		o := &decide.Restorer{Epoch: 4, Now: noon, Oldest: noon.Add(-27 * time.Hour)}
		for _, r := range append([]*quota.Restoration{{Gaps: gaps}}, order...) {
			o.Restore(r)
		}
		if got := units(o); got != 5+20+30+10+5 {
			t.Errorf("%d units; want 70: what came after the copy counted neither the 20 nor the 30", got)
		}
	}
}

// TestGapEndsAfterItBegins: on a ledger whose clock was set back, what the copy
// holds may have come to it later than now. A gap that ends before it begins
// would be refused in each later restoration.
func TestGapEndsAfterItBegins(t *testing.T) {
	o := restorer(call(1, 1, 5*time.Hour, 5))
	o.Lives = []quota.Life{{Client: 1, Epoch: 3, Since: noon.Add(time.Hour)}}
	done := o.Restore(&quota.Restoration{Known: quota.Receipt{ID: quota.ID{Client: 1, Seq: 2}, At: noon.Add(2 * time.Hour), Epoch: 3}})
	if done.Forgotten == nil {
		t.Fatal("the log holds what it does not have")
	}
	again := &quota.Restoration{Account: "video-api", History: time.Hour, Gaps: done.Gaps}
	if err := again.Check(); err != nil {
		t.Error(err)
	}
}

// TestStatementsAreWrittenAndRead: a ledger keeps all of them.
func TestStatementsAreWrittenAndRead(t *testing.T) {
	o := restorer(call(1, 1, time.Hour, 5))
	lives := []quota.Life{{Client: 1, Epoch: 2, Since: noon.Add(-time.Hour)}, {Client: 1, Seq: 4, Epoch: 2, Since: noon}, {Client: 8, Epoch: 2, Since: noon}}
	o.Restore(&quota.Restoration{Heard: []quota.WindowUse{heard(9, 2, time.Minute, 7)}, Lives: lives})
	if len(o.Lives) != 4 { // those of client 1, in two lives
		t.Errorf("%+v; want the lives of client 1", o.Lives)
	}
	o.Gaps = []quota.Gap{{Epoch: 2, To: noon}, {Epoch: 3, To: noon, Until: noon.Add(time.Hour)}}
	again, err := decide.ParseStatements(o.Format())
	if err != nil || !slices.EqualFunc(again.Gaps, o.Gaps, decide.SameGap) || len(again.Heard) != 1 || len(again.Lives) != 4 || again.Lives[1] != o.Lives[1] || again.Heard[0].Epoch != 2 || again.Heard[0].Used != 7 {
		t.Errorf("%+v, %v; want %+v", again, err, o.Statements)
	}
	if _, err := decide.ParseStatements([]byte("{")); err == nil {
		t.Error("parsed half an object")
	}
}

// TestStatementCountsOnlyItsWindow: entries from before or after it would be
// taken for a part of what it counted.
func TestStatementCountsOnlyItsWindow(t *testing.T) {
	o := restorer(call(1, 1, 26*time.Hour, 40), call(1, 2, 10*time.Hour, 3), call(1, 3, 30*time.Minute, 40))
	o.Restore(lost(heard(9, 3, time.Hour, 10)))
	if got := units(o); got != 40+10+40 {
		t.Errorf("%d units; want a note of 7 in the window, and 40 on each side of it", got)
	}
}

// TestMovedEntryLeavesItsStatement: an entry gets another timestamp if its own
// is taken. The statement that its grant made moves with it, each time.
func TestMovedEntryLeavesItsStatement(t *testing.T) {
	o := restorer(call(1, 1, time.Hour, 40))
	mine := &quota.Restoration{Entries: []quota.Entry{call(2, 1, time.Hour, 5)}, Heard: []quota.WindowUse{heard(9, 3, time.Hour, 45)}}
	for range 3 {
		if o.Restore(mine); units(o) != 45 || len(o.Entries) != 2 {
			t.Fatalf("%+v; want two entries and no note", o.Entries)
		}
	}
}

// TestClockBehindTheLog: grants are stamped after the newest entry,
// whatever the clock says. What was heard up to there did not count what is
// restored now.
func TestClockBehindTheLog(t *testing.T) {
	o := restorer(call(5, 1, -time.Minute, 1))
	o.Restore(&quota.Restoration{Entries: []quota.Entry{call(1, 1, 3*time.Hour, 40)}, Lives: []quota.Life{{Client: 1, Epoch: 1, Since: noon.Add(-3 * time.Hour)}}})
	o.Restore(lost(heard(9, 3, -time.Minute, 100)))
	if got := units(o); got != 140 {
		t.Errorf("%d units; want 140", got)
	}
}

// TestEntriesOfAnOlderCopyAreTakenForOthers: a log was lost, and so was the one
// after it; then an older copy of the first came back. What a host heard of the
// second did not count the entries of the copy.
func TestEntriesOfAnOlderCopyAreTakenForOthers(t *testing.T) {
	o := restorer(call(1, 1, 3*time.Hour, 300))
	lives := []quota.Life{{Client: 2, Epoch: 9, Since: noon.Add(-2 * time.Hour)}, {Client: 20, Epoch: 9, Since: noon.Add(-2 * time.Hour)}}
	done := o.Restore(&quota.Restoration{Lost: true, Entries: []quota.Entry{call(2, 1, time.Hour, 10)}, Heard: []quota.WindowUse{heard(20, 9, time.Hour, 400)}, Lives: lives})
	if done.Noted != 390 || units(o) != 700 {
		t.Errorf("%d units noted, %d in the log; want 390 and 700", done.Noted, units(o))
	}
}

// TestLogOutlivesItsEpoch: a log got a new epoch because a server had
// evicted the old one alone. What a host heard of it counted the entries
// that are there.
func TestLogOutlivesItsEpoch(t *testing.T) {
	o := restorer(call(1, 1, 3*time.Hour, 300), call(1, 2, time.Minute, 5))
	o.Since = noon.Add(-30 * time.Minute)
	lives := []quota.Life{{Client: 2, Epoch: 9, Since: noon.Add(-2 * time.Hour)}, {Client: 20, Epoch: 9, Since: noon.Add(-2 * time.Hour)}}
	for range 2 { // another host may return later, and the log no longer says how old its epoch is
		done := o.Restore(&quota.Restoration{Known: quota.Receipt{Epoch: 9}, Lost: true,
			Entries: []quota.Entry{call(2, 1, time.Hour, 10)}, Heard: []quota.WindowUse{heard(20, 9, time.Hour, 400)}, Lives: lives})
		if done.Noted != 90 || units(o) != 405 {
			t.Errorf("%d units noted, %d in the log; want 90 and 405", done.Noted, units(o))
		}
		o.Since = time.Time{}
	}
}

// TestNewLogHasAGap: a new log lacks nothing that it was given, so what is
// restored into it has been there since.
func TestNewLogHasAGap(t *testing.T) {
	known := quota.Receipt{ID: quota.ID{Client: 1, Seq: 1}, At: noon.Add(-time.Hour), Epoch: 2}
	lives := []quota.Life{{Client: 1, Epoch: 2, Since: noon.Add(-time.Hour)}}
	for epoch, gaps := range map[uint64]int{3: 0, 2: 1} { // 2: an empty copy of the log that the client knows
		o := restorer()
		o.Epoch = epoch
		done := o.Restore(&quota.Restoration{Lost: true, Known: known, Entries: []quota.Entry{call(1, 1, time.Hour, 5)}, Lives: lives})
		if len(done.Gaps) != gaps {
			t.Errorf("epoch %d: gaps %v; want %d", epoch, done.Gaps, gaps)
		}
	}
}

// TestOlderLifeHeldTooMuch: a log on Redis has lost what was said of it. What
// the client says of the life before is later than the entries' stamps, and an
// answer from between the two did not count them.
func TestOlderLifeHeldTooMuch(t *testing.T) {
	o := restorer(call(1, 1, 3*time.Hour, 5))
	o.Since = noon.Add(-time.Minute)
	since := noon.Add(-time.Hour)
	o.Restore(&quota.Restoration{Known: quota.Receipt{ID: quota.ID{Client: 1, Seq: 1}, At: noon.Add(-3 * time.Hour), Epoch: 2},
		Entries: []quota.Entry{call(1, 1, 3*time.Hour, 5)}, Lives: []quota.Life{{Client: 1, Epoch: 2, Since: since}}})
	for _, life := range o.Lives {
		if life.Epoch == 2 && !life.Since.Equal(since) {
			t.Errorf("%+v; want since %s", life, since)
		}
	}
}

// TestRefusalSaidTooLittle: a refusal at a low limit said 30 of the 100 units
// that another host had spent. In the next life of the log these were a note of
// 30, and a third host spent 46. All 100 were taken for a part of what was
// heard there, and the 46 for nothing.
func TestRefusalSaidTooLittle(t *testing.T) {
	first, second := noon.Add(-5*time.Hour), noon.Add(-3*time.Hour)
	o := restorer()
	o.Restore(&quota.Restoration{Entries: []quota.Entry{call(1, 1, 5*time.Hour, 60), call(1, 2, 5*time.Hour-time.Minute, 40)},
		Lives: []quota.Life{{Client: 1, Epoch: 1, Since: first}}})
	refused, granted := heard(9, 1, 4*time.Hour, 30), heard(9, 2, 2*time.Hour, 30+46+3)
	o.Restore(&quota.Restoration{Entries: []quota.Entry{call(2, 1, 3*time.Hour, 3)}, Heard: []quota.WindowUse{refused, granted},
		Lives: []quota.Life{{Client: 2, Epoch: 2, Since: second}, {Client: 9, Epoch: 1, Since: first}, {Client: 9, Epoch: 2, Since: second}}})
	if got := units(o); got != 100+3+46 {
		t.Errorf("%d units; want 149, with a note of the 46", got)
	}
}

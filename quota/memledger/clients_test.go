package memledger

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
)

// TestManyClientsForgetEarlierOnes: a batch that was repeated within ten
// minutes was charged twice if thousands of other clients had come meanwhile.
// Batches older than that are forgotten, so that clients that never return take
// no more memory.
func TestManyClientsForgetEarlierOnes(t *testing.T) {
	clock := &ledgertest.Clock{}
	clock.Set(time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC))
	l := Open(&Options{Now: clock.Now})
	day := &quota.Charge{Budget: "day", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: quota.MaxLimit, Window: quota.Sliding(24 * time.Hour)}
	spend := func(client int) quota.Receipt {
		answers, err := l.Spend(t.Context(), &quota.Batch{Account: "my-project", Client: uint64(client), Seq: 1, Requests: []quota.Request{{Method: "m", Units: 1, Charges: []*quota.Charge{day}}}})
		if err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
		return answers[0].Receipt
	}
	first, client := spend(1), 1
	for range 6000 {
		clock.Add(90 * time.Millisecond)
		client++
		spend(client)
	}
	if again := spend(1); again != first {
		t.Errorf("%+v after nine minutes; want the first answer, %+v", again, first)
	}
	for range 20_000 {
		clock.Add(time.Second)
		client++
		spend(client)
	}
	if kept := len(l.log(logName{account: "my-project"}, 0).clients); kept > sweepEvery {
		t.Errorf("%d clients are kept; want at most %d, where 600 came in ten minutes", kept, sweepEvery)
	}
}

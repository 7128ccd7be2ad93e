package sqliteledger_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
)

// TestManyIdsForgetEarlierOnes: a call that was repeated with its id within ten
// minutes was charged twice if 4096 others had come meanwhile. Ids older than
// that are forgotten.
func TestManyIdsForgetEarlierOnes(t *testing.T) {
	l, clock := timed(t)
	day := charge("day", 1_000_000, quota.Sliding(24*time.Hour))
	named := func(name string) quota.Receipt {
		batch, id := one(1, day), quota.NameID(name, "")
		batch.Client, batch.Seq, batch.Once = id.Client, id.Seq, true
		answers, err := l.Spend(t.Context(), batch)
		if err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
		return answers[0].Receipt
	}
	first := named("first")
	for i := range 6000 {
		clock.Add(90 * time.Millisecond)
		named(fmt.Sprint("other ", i))
	}
	if again := named("first"); again != first {
		t.Errorf("%+v after %s; want the first answer, %+v", again, 6000*90*time.Millisecond, first)
	}
	for i := range 2000 {
		clock.Add(time.Second)
		named(fmt.Sprint("later ", i))
	}
	if rows := count(t, l, "clients"); rows > 600+5*256 {
		t.Errorf("%d ids are remembered; want those of about ten minutes, 600", rows)
	}
}

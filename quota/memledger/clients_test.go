package memledger

import (
	"testing"
	"time"

	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/internal/decide"
)

// TestLastBatchesOfManyClients: a log keeps the grants of 4,096 clients, the
// newest among them, so that clients that never return take no more memory.
func TestLastBatchesOfManyClients(t *testing.T) {
	l := Open(nil)
	day := &quota.Charge{Budget: "day", Coverage: quota.NewCoverage(quota.Coverage{}), Limit: quota.MaxLimit, Window: quota.Sliding(24 * time.Hour)}
	spend := func(client uint64) quota.Receipt {
		answers, err := l.Spend(t.Context(), &quota.Batch{Account: "my-project", Client: client, Seq: 1, Requests: []quota.Request{{Method: "m", Units: 1, Charges: []*quota.Charge{day}}}})
		if err != nil || answers[0].Err != nil {
			t.Fatal(answers, err)
		}
		return answers[0].Receipt
	}
	g := l.log(logName{account: "my-project"}, 0)
	for client := range uint64(decide.MaxClients + 100) {
		first := spend(client + 1)
		if again := spend(client + 1); again != first {
			t.Fatalf("client %d sends its batch again: %+v; want the first answer, %+v", client, again, first)
		}
		if want := min(int(client)+1, decide.MaxClients); len(g.clients) != want {
			t.Fatalf("%d clients are kept after %d; want %d", len(g.clients), client+1, want)
		}
	}
}

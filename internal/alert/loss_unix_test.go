//go:build unix

package alert_test

import (
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/alert"
	"github.com/ration-dev/ration/internal/servers"
)

// TestALossThatAnotherHostNoticesIsTold: a host that only spends has no alerts,
// and nothing was sent of what it restored.
func TestALossThatAnotherHostNoticesIsTold(t *testing.T) {
	server, r := servers.StartRedis(t), newReceiver(t, 0)
	on := "{webhook: " + r.URL + ", on: [ledger]}"
	w := alert.New(newClient(t, on, server.URL(), t.TempDir()), nil).Impatient()
	w.Check(t.Context())
	spender := newClient(t, on, server.URL(), t.TempDir())
	spend(t, spender, 5)
	server.Do(t, "flushall")
	spend(t, spender, 1)
	for range 2 {
		w.Check(t.Context())
	}
	const want = "the ledger of account p had lost records: host "
	if texts := r.texts(); len(texts) != 1 || !strings.Contains(texts[0], want) {
		t.Errorf("%q; want one of the loss", texts)
	}
}

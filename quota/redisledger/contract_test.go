package redisledger

import (
	"fmt"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/quota/ledgertest"
)

func TestContract(t *testing.T) {
	server := servers.StartRedis(t)
	n := 0
	ledgertest.Run(t, func(t *testing.T, now func() time.Time) func() engine.Ledger {
		n++
		o := &Options{Now: now, Prefix: fmt.Sprint("test", n)}
		return func() engine.Ledger {
			l, err := Open(server.URL(), o)
			if err != nil {
				t.Fatal(err)
			}
			l.patience = time.Minute
			return l
		}
	})
}

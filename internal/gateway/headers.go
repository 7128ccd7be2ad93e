package gateway

import (
	"net/http"

	"github.com/ration-dev/ration/internal/engine"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/inbound"
)

// setBalances sets the headers that tell a client what is left of budgets, in
// what each of them counts: units, or calls.
func setBalances(header http.Header, balances []quota.Balance) {
	left := make([]inbound.Balance, len(balances))
	for i := range balances {
		b := &balances[i]
		window := b.Budget.Window
		length := b.Budget.Horizon()
		switch window.Kind() {
		case engine.Calendar:
			day := window.Day(b.At)
			length = day.Opens.Sub(day.Start)
		case engine.Bucket:
			length = window.RefillTime(b.Budget.Limit)
		}
		left[i] = inbound.Balance{
			Name: b.Budget.Name, Limit: int64(b.Limit()), Window: length,
			Remaining: int64(b.Remaining), At: b.At, NextFree: b.NextFree,
		}
	}
	inbound.SetHeaders(header, left)
}

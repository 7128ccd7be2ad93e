package web_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestTheChartHasAllOfABurst: of 5,000 calls in the first second of an hour,
// the chart had the newest 2,000 for up to an hour.
func TestTheChartHasAllOfABurst(t *testing.T) {
	at := time.Now().Truncate(time.Hour)
	ledger := memledger.Open(&memledger.Options{Now: func() time.Time { return at }})
	call := quota.Call{Account: "my-project", Method: "videos.list", Units: 1, Caller: quota.Caller{Region: "US"}}
	testledger.Fill(t, ledger, slices.Repeat([]quota.Call{call}, 5000)...)
	at = time.Now()
	s := newScene(t, sceneOptions{opened: ledger})
	page := s.fetch("/").text
	for late := time.Now().Add(30 * time.Second); strings.Contains(page, "is being read") && time.Now().Before(late); {
		page = s.fetch("/").text
	}
	contains(t, page, `Last 24 hours <strong><data value="5000">`)
}

package gateway_test

import (
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/quota/memledger"
)

// newMemoryClient opens a client of a table with its ledger in memory.
func newMemoryClient(t testing.TB, text, endpoint string) *client.Client {
	t.Helper()
	parsed, err := costs.Parse("costs.yaml", []byte(text))
	if err == nil && endpoint != "" {
		parsed, err = parsed.WithEndpoint("", endpoint)
	}
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	c, err := client.New(parsed, &client.Options{Opened: memledger.Open(nil), State: folder,
		Replica: folder + "/replica"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

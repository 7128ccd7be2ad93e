package gateway_test

import (
	"fmt"
	"os/exec"
	"strconv"
	"testing"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/servers"
)

// BenchmarkLimitFromPHP asks for the limits of a hundred clients from PHP, with
// curl and one connection, and reports the median and the 99th percentile
// beside those of /healthz, which does nothing, in the same run.
func BenchmarkLimitFromPHP(b *testing.B) {
	for _, store := range []string{"SQLite", "Redis"} {
		b.Run(store, func(b *testing.B) {
			parsed, err := costs.Parse("costs.yaml", []byte(benchTable))
			if err != nil {
				b.Fatal(err)
			}
			state := b.TempDir()
			address := "sqlite:" + state + "/ledger.db"
			if store == "Redis" {
				address = servers.StartRedis(b).URL()
			}
			c, err := client.New(parsed, &client.Options{Ledger: address, State: state})
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { c.Close() })
			url := serveBench(b, c, "", "127.0.0.1:0")
			b.ResetTimer()
			out, err := exec.Command("php", "testdata/limit.php", url, strconv.Itoa(b.N)).CombinedOutput()
			b.StopTimer()
			var floor, limit [2]float64
			if _, wrong := fmt.Sscan(string(out), &floor[0], &floor[1], &limit[0], &limit[1]); wrong != nil ||
				err != nil {
				b.Fatalf("%v: %s", err, out)
			}
			for i, name := range []string{"p50", "p99"} {
				b.ReportMetric(floor[i], "healthz-"+name+"-µs")
				b.ReportMetric(limit[i], "limit-"+name+"-µs")
				b.ReportMetric(limit[i]/floor[i], name+"-x")
			}
		})
	}
}

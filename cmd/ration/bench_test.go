package main

import (
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// BenchmarkColdSpend is one `ration spend` on SQLite from start to exit, as a
// shell loop calls it, in turn with a bare program that commits one row;
// "xbare" is the ratio.
func BenchmarkColdSpend(b *testing.B) {
	dir := b.TempDir()
	build := func(name, pkg string) string {
		path := filepath.Join(dir, name)
		if out, err := exec.Command("go", "build", "-o", path, pkg).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		return path
	}
	ration, bare := build("ration", "."), build("bare", "./testdata/bare")
	shipped, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		b.Fatal(err)
	}
	run := func(name string, args ...string) time.Duration {
		began := time.Now()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			b.Fatalf("%v: %s", err, out)
		}
		return time.Since(began)
	}
	spend := func() time.Duration {
		return run(ration, "--config", shipped, "--state", dir, "--ledger", "sqlite:"+filepath.Join(dir, "ration.db"),
			"spend", "videos.list")
	}
	commit := func() time.Duration { return run(bare, filepath.Join(dir, "bare.db")) }
	spend() // makes the ledger
	commit()
	var ours, baseline time.Duration
	for b.Loop() {
		ours += spend()
		baseline += commit()
	}
	b.ReportMetric(float64(ours)/float64(baseline), "xbare")
	b.ReportMetric(float64(ours.Microseconds())/float64(b.N), "µs/spend")
}

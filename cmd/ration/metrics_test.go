//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// hasSamples fails unless every sample is in a text of metrics.
func hasSamples(t *testing.T, text string, samples ...string) {
	t.Helper()
	for _, sample := range samples {
		if !strings.Contains("\n"+text, "\n"+sample+"\n") {
			t.Errorf("no sample %s in:\n%s", sample, text)
		}
	}
}

// TestTheMetricsFileIsReplacedWhole: the file for node_exporter is replaced as
// a whole, readable by it, and loses what a ledger that is down does not tell.
func TestTheMetricsFileIsReplacedWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("waits two seconds for a ledger that is down")
	}
	s := newStand(t, nil, plentyOfUnits, "[trending]", "US")
	file := filepath.Join(s.dir, "ration.prom")
	if code, out, text := s.run(t, nil, "metrics", "--out", file); code != exitDone || out != "" {
		t.Fatalf("exit code %d: %s%s", code, out, text)
	}
	hasSamples(t, mustRead(t, file), `ration_budget_used_units{account="p",budget="all"} 0`)
	if _, err := os.Stat(filepath.Join(s.dir, "ration.db")); err == nil {
		t.Error("metrics has made a ledger")
	}
	if code, out, text := s.run(t, nil, "spend", "videos.list"); code != exitDone {
		t.Fatalf("exit code %d: %s%s", code, out, text)
	}
	if code, _, text := s.run(t, nil, "metrics", "--out", file); code != exitDone {
		t.Fatalf("exit code %d: %s", code, text)
	}
	_, printed, _ := s.run(t, nil, "metrics")
	if written := mustRead(t, file); written != printed {
		t.Errorf("the file has\n%s\nand stdout\n%s", written, printed)
	}
	hasSamples(t, printed, `ration_budget_used_units{account="p",budget="all"} 1`)
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o644 {
		t.Errorf("%v %v", info.Mode(), err)
	}
	code, _, text := s.run(t, []string{"RATION_LEDGER=redis://127.0.0.1:1/0"}, "metrics", "--out", file)
	if written := mustRead(t, file); code != exitLedger || strings.Contains(written, "used") ||
		!strings.Contains(written, "ration_budget_limit_units") {
		t.Errorf("while the ledger is down: exit code %d %s\n%s", code, text, written)
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, "ration.prom*")); err != nil || len(left) != 1 {
		t.Errorf("files left: %v %v", left, err)
	}
	if code, _, text := s.run(t, nil, "metrics", "--out", filepath.Join(s.dir, "none", "x.prom")); code != 1 ||
		!strings.HasPrefix(text, "ration: metrics file "+filepath.Join(s.dir, "none", "x.prom")+
			": no such file or directory; name a file in a folder ") {
		t.Errorf("a folder that does not exist: exit code %d: %s", code, text)
	}
}

// TestMetricsShowWhatAShadowWouldRefuse: metrics shows it, of shadows only.
func TestMetricsShowWhatAShadowWouldRefuse(t *testing.T) {
	s := newStand(t, nil, "{name: all, limit: 100, window: 24h}, {name: tried, limit: 2, window: 24h, shadow: true}",
		"[trending]", "US")
	for range 5 {
		if code, out, text := s.run(t, nil, "spend", "videos.list"); code != exitDone {
			t.Fatalf("exit code %d: %s%s", code, out, text)
		}
	}
	want := []string{`ration_budget_would_refuse_calls{account="p",budget="tried"} 3`,
		`ration_budget_would_refuse_units{account="p",budget="tried"} 3`}
	_, printed, _ := s.run(t, nil, "metrics")
	hasSamples(t, printed, want...)
	if strings.Contains(printed, `would_refuse_calls{account="p",budget="all"}`) {
		t.Errorf("a budget that refuses is no shadow:\n%s", printed)
	}
}

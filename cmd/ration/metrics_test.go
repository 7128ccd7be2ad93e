//go:build unix

package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
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

// TestMetricsAreNotServed: serve and proxy show what they decided and passes, behind
// the checks of all pages, and go on with it when the configuration is read again.
func TestMetricsAreNotServed(t *testing.T) {
	s := newStand(t, nil, plentyOfUnits, "[trending]", "US")
	d := s.serve(t, []string{"RATION_TOKEN=0123456789abcdef"})
	base := d.url()
	d.says(`msg=pass region=US .* outcome=complete`)
	read := func(header, value string) (int, string) {
		req, err := http.NewRequest("GET", base+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer 0123456789abcdef")
		req.Header.Set(header, value)
		if header == "Host" {
			req.Host = value
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		text, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(text)
	}
	status, text := read("Accept", "text/plain")
	if status != 200 {
		t.Fatalf("%d %s", status, text)
	}
	hasSamples(t, text, `ration_pass_runs_total{outcome="complete",region="US"} 1`, `ration_journal_failing{account="p"} 0`)
	for _, name := range []string{"ration_decisions_total", "ration_units_total", "ration_budget_limit_units", "ration_budget_used_units", "ration_budget_remaining_units",
		"ration_budget_next_free_timestamp_seconds", "ration_wait_seconds_count", "ration_ledger_duration_seconds_count", "ration_unrecorded_units", "ration_journal_bytes", "ration_pass_units_total"} {
		if !strings.Contains(text, "\n"+name+"{") {
			t.Errorf("no %s in:\n%s", name, text)
		}
	}
	if status, _ := read("Authorization", "Bearer wrong"); status != 401 {
		t.Errorf("with another token: %d", status)
	}
	if status, _ := read("Host", "evil.example"); status != 421 {
		t.Errorf("for another host: %d", status)
	}
	d.Process.Signal(syscall.SIGHUP)
	d.says(`nothing changed`)
	_, text = read("Accept", "text/plain")
	hasSamples(t, text, `ration_pass_runs_total{outcome="complete",region="US"} 1`)
	d.ends(syscall.SIGTERM)
}

// TestMetricsFileIsHalfWritten: the file for node_exporter is replaced as a whole,
// readable by it, and loses what a ledger that is down does not tell.
func TestMetricsFileIsHalfWritten(t *testing.T) {
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
	if written := mustRead(t, file); code != exitLedger || strings.Contains(written, "used") || !strings.Contains(written, "ration_budget_limit_units") {
		t.Errorf("while the ledger is down: exit code %d %s\n%s", code, text, written)
	}
	if left, err := filepath.Glob(filepath.Join(s.dir, "ration.prom*")); err != nil || len(left) != 1 {
		t.Errorf("files left: %v %v", left, err)
	}
	if code, _, text := s.run(t, nil, "metrics", "--out", filepath.Join(s.dir, "none", "x.prom")); code != 1 || !strings.Contains(text, "--out") {
		t.Errorf("a folder that does not exist: exit code %d: %s", code, text)
	}
}

// TestMetricsHideWhatAShadowWouldRefuse: metrics and proxy show it, of shadows only.
func TestMetricsHideWhatAShadowWouldRefuse(t *testing.T) {
	s := newStand(t, nil, "{name: all, limit: 100, window: 24h}, {name: tried, limit: 2, window: 24h, shadow: true}", "[trending]", "US")
	for range 5 {
		if code, out, text := s.run(t, nil, "spend", "videos.list"); code != exitDone {
			t.Fatalf("exit code %d: %s%s", code, out, text)
		}
	}
	want := []string{`ration_budget_would_refuse_calls{account="p",budget="tried"} 3`, `ration_budget_would_refuse_units{account="p",budget="tried"} 3`}
	_, printed, _ := s.run(t, nil, "metrics")
	hasSamples(t, printed, want...)
	if strings.Contains(printed, `would_refuse_calls{account="p",budget="all"}`) {
		t.Errorf("a budget that refuses is no shadow:\n%s", printed)
	}
	d := s.start(t, nil, "proxy", "--listen", "127.0.0.1:0")
	_, shown := get(t, d.url()+"/metrics")
	hasSamples(t, shown, want...)
	d.ends(syscall.SIGTERM)
}

// TestSearchesAreUnlimited: a client may search 60 times a minute.
func TestSearchesAreUnlimited(t *testing.T) {
	s := newStand(t, nil, plentyOfUnits, "[trending]", "US")
	d := s.serve(t, nil)
	base := d.url()
	d.says(`msg=pass region=US .* outcome=complete`)
	var statuses [62]int
	for i := range statuses {
		statuses[i], _ = get(t, base+"/search?q=the")
	}
	if statuses[0] != 200 || statuses[59] != 200 || statuses[60] != 429 || statuses[61] != 429 {
		t.Errorf("%v; want 60 answers, then 429", statuses)
	}
	d.ends(syscall.SIGTERM)
}

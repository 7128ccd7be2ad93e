//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ration-dev/ration/internal/metrics"
	"github.com/ration-dev/ration/internal/plan"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

var observe = filepath.Join("..", "..", "docs", "observe")

// prometheusTool returns the path of a program of Debian's package prometheus.
// It skips the test without one, or fails it if RATION_REQUIRE_PROMETHEUS=1.
func prometheusTool(t *testing.T, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil && os.Getenv("RATION_REQUIRE_PROMETHEUS") == "1" {
		t.Fatalf("no %s on this machine, and RATION_REQUIRE_PROMETHEUS=1; install prometheus", name)
	}
	if err != nil {
		t.Skipf("SKIPPED, no %s on this machine; install prometheus to run this test", name)
	}
	return path
}

// metricNames returns the names of all metrics.
func metricNames(t *testing.T) (names []string) {
	t.Helper()
	ledger := metrics.NewLedger(memledger.Open(nil))
	guard, err := quota.NewGuard(ledger, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	described := make(chan *prometheus.Desc, 100)
	metrics.New(guard, &metrics.Options{Ledger: ledger,
		Host: func(string) (metrics.HostStats, error) { return metrics.HostStats{}, nil }}).Describe(described)
	metrics.NewPasses().Describe(described)
	(&plan.ShadowCollector{}).Describe(described)
	close(described)
	for desc := range described {
		names = append(names, regexp.MustCompile(`fqName: "(\w+)"`).FindStringSubmatch(desc.String())[1])
	}
	slices.Sort(names)
	return names
}

// panelQueries returns the queries of the dashboard, as Grafana sends them.
func panelQueries(t *testing.T) (queries []string) {
	t.Helper()
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal([]byte(mustRead(t, filepath.Join(observe, "dashboard.json"))), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			queries = append(queries,
				strings.NewReplacer("$__rate_interval", "1m", "$account", ".*").Replace(target.Expr))
		}
	}
	return queries
}

// TestObservedMetricsExist: the page lists every metric, the dashboard
// shows every metric, and it and the rules name no other.
func TestObservedMetricsExist(t *testing.T) {
	names := metricNames(t)
	var listed []string
	for _, row := range regexp.MustCompile("(?m)^\\| `(ration_\\w+)`").FindAllStringSubmatch(mustRead(t,
		filepath.Join(observe, "README.md")), -1) {
		listed = append(listed, row[1])
	}
	slices.Sort(listed)
	if !slices.Equal(listed, names) {
		t.Errorf("the page lists %q; want %q", listed, names)
	}
	queries := strings.Join(panelQueries(t), "\n")
	for _, used := range regexp.MustCompile(`ration_\w+`).FindAllString(queries+
		mustRead(t, filepath.Join(observe, "alerts.yaml")), -1) {
		if !slices.Contains(names, regexp.MustCompile(`_(bucket|sum|count)$`).ReplaceAllString(used, "")) {
			t.Errorf("%s is no metric", used)
		}
	}
	for _, name := range names {
		if !regexp.MustCompile(name + `(_bucket|_count)?\b`).MatchString(queries) {
			t.Errorf("no panel shows %s", name)
		}
	}
}

// TestPrometheusRulesFireWhenTheyShould: promtool accepts the rules, and they
// fire when they should.
func TestPrometheusRulesFireWhenTheyShould(t *testing.T) {
	if testing.Short() {
		t.Skip("starts promtool, a second")
	}
	t.Parallel()
	promtool := prometheusTool(t, "promtool")
	for _, args := range [][]string{{"check", "rules", "alerts.yaml"}, {"test", "rules", "alerts_test.yaml"}} {
		cmd := exec.Command(promtool, args...)
		cmd.Dir = observe
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

// TestPrometheusScrapesServe: a Prometheus with the rules scrapes a serve.
// The names are as promtool wants them, each query of the dashboard runs, and
// the alert of a spent budget is on its way.
func TestPrometheusScrapesServe(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a Prometheus, 6 seconds")
	}
	t.Parallel()
	promtool := prometheusTool(t, "promtool")
	s := newStand(t, nil, "{name: all, limit: 3, window: 24h, methods: [videos.list]}", "[trending]", "US")
	d := s.serve(t, nil)
	base := d.url()
	d.says(`msg=pass region=US .* outcome=`)
	for range 4 {
		get(t, base+video)
	}
	_, text := get(t, base+"/metrics")
	check := exec.Command(promtool, "check", "metrics")
	check.Stdin = strings.NewReader(text)
	if out, err := check.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	p := startPrometheus(t, strings.TrimPrefix(base, "http://"))
	var found []json.RawMessage
	for found = p.query(t, `ration_budget_used_units{budget="all"} == 3`); len(found) == 0; found = p.query(t,
		`ration_budget_used_units{budget="all"} == 3`) {
		p.alive(t)
	}
	for _, query := range panelQueries(t) {
		p.query(t, query)
	}
	for states := p.rules(t); !strings.Contains(states, "RationBudgetAlmostSpent ok pending\n"); states = p.rules(t) {
		p.alive(t)
		if strings.Contains(states, " err ") {
			t.Fatal(states)
		}
	}
	d.ends(syscall.SIGTERM)
}

// prometheusServer is a Prometheus that scrapes one target.
type prometheusServer struct {
	*served
	url  string
	late <-chan time.Time
}

func startPrometheus(t *testing.T, target string) *prometheusServer {
	t.Helper()
	binary := prometheusTool(t, "prometheus")
	rules, err := filepath.Abs(filepath.Join(observe, "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "prometheus.yaml")
	text := fmt.Sprintf("global: {scrape_interval: 100ms, scrape_timeout: 100ms, evaluation_interval: "+
		"100ms}\nrule_files: [%s]\nscrape_configs:\n- {job_name: ration, static_configs: [{targets: [%q]}]}\n", rules,
		target)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := port.Addr().String()
	port.Close()
	cmd := exec.Command(binary, "--config.file", config, "--storage.tsdb.path", t.TempDir(), "--web.listen-address",
		address)
	p := &prometheusServer{served: startCommand(t, cmd), url: "http://" + address, late: time.After(30 * time.Second)}
	p.says("Server is ready to receive web requests")
	return p
}

// alive fails the test if it takes half a minute.
func (p *prometheusServer) alive(t *testing.T) {
	t.Helper()
	select {
	case <-p.late:
		t.Fatalf("prometheus has not what it should: %s\n%s", p.rules(t), p.text())
	case <-p.done:
		t.Fatal(p.text())
	case <-time.After(20 * time.Millisecond):
	}
}

// query returns the result of a query.
func (p *prometheusServer) query(t *testing.T, query string) []json.RawMessage {
	t.Helper()
	status, body := get(t, p.url+"/api/v1/query?query="+url.QueryEscape(query))
	var answer struct {
		Data struct{ Result []json.RawMessage }
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || status != 200 {
		t.Fatalf("%s: %d %s", query, status, body)
	}
	return answer.Data.Result
}

// rules returns the name, the health and the state of each alert rule, a
// line each.
func (p *prometheusServer) rules(t *testing.T) (lines string) {
	t.Helper()
	_, body := get(t, p.url+"/api/v1/rules")
	var answer struct {
		Data struct {
			Groups []struct {
				Rules []struct{ Name, Health, State string }
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || len(answer.Data.Groups) == 0 {
		t.Fatalf("%v in %s", err, body)
	}
	for _, rule := range answer.Data.Groups[0].Rules {
		lines += rule.Name + " " + rule.Health + " " + rule.State + "\n"
	}
	return lines
}

package costs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/ration-dev/ration/costs"
)

const beforeAlert = "version: 1\naccount: a\ncosts: {get: 1}\nbudgets: [{name: all, limit: 1, window: 24h}]\n"

// TestAlertsShowNoMoreThanTheWebhooksHost: mistakes and lists show no more of a
// URL than its host.
func TestAlertsShowNoMoreThanTheWebhooksHost(t *testing.T) {
	mistaken(t, beforeAlert+"alert: ", map[string]string{
		"{}": "an alert goes one way: write one of webhook, webhook_file and command",
		"{webhook: https://x.example/SECRET, command: [a]}": "an alert goes one way",
		"{webhook: /services/SECRET}": "webhook: not the URL of a web server: write " +
			"https://hooks.example.com/path",
		"{webhook: \"https://u:SECRET@x.example/\"}":  "webhook: a URL with a user name or password",
		"{webhook: ftp://x.example/SECRET}":           "webhook: not the URL of a web server",
		"{webhook: \"https://x.example/%zz?SECRET\"}": "webhook: not the URL of a web server",
		"{webhook_file: ~/x}":                         "file begins with ~",
		"{command: []}":                               "no program: write [./page.sh]",
		"{command: [a], on: []}": "an empty list: write some of refused, level, " +
			"exhaustion, cooldown, ledger, drift, credential",
		"{command: [a], on: [levl]}":    `unknown alert "levl": write level`,
		"{command: [a], levels: [101]}": "is 101: write an integer from 1 to 100",
		"{command: [a], levels: []}":    "an empty list: write percentages",
		"{command: [a], repeat: 1m}":    "repeat is \"1m\": write a duration from 10m to 720h",
	}, "")
	table, err := costs.Parse("costs.yaml",
		[]byte(beforeAlert+"alert: {webhook: \"https://hooks.example.com/SECRET?SECRET\"}\n"))
	if err != nil {
		t.Fatal(err)
	}
	got := table.Upstreams()[0].Alert.String()
	if want := "webhook of hooks.example.com on refused, level, exhaustion, cooldown, ledger, drift, credential, " +
		"levels 80 %, 95 %, again after 24h"; got != want {
		t.Errorf("%s; want %s", got, want)
	}
}

// TestThePageOfAlertsIsAccepted: the block of docs/alerts.md is accepted.
func TestThePageOfAlertsIsAccepted(t *testing.T) {
	page, err := os.ReadFile("../docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	block := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)[1]
	table, err := costs.Parse("costs.yaml", []byte(beforeAlert+string(block)))
	if err != nil || table.Upstreams()[0].Alert.WebhookFile != "webhook.url" {
		t.Errorf("%v", err)
	}
}

// TestAnAlertProgramNeedsNoList: a program without arguments needs no list, as
// in regions.yaml.
func TestAnAlertProgramNeedsNoList(t *testing.T) {
	table, err := costs.Parse("/srv/costs.yaml", []byte(beforeAlert+"alert: {command: ./page.sh}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if got := table.Upstreams()[0].Alert.Command; len(got) != 1 || got[0] != filepath.Join("/srv", "page.sh") {
		t.Errorf("the command is %q", got)
	}
	mistaken(t, beforeAlert+"alert: {command: ", map[string]string{
		"./page.sh -v":  "5:18: command is a line, and no shell splits it: write a list, [./page.sh, -v]",
		"./page.sh 5":   "5:18: command is a line, and no shell splits it: write a list, [./page.sh, \"5\"]",
		"./p --at=1:30": "5:18: command is a line, and no shell splits it: write a list, [./p, \"--at=1:30\"]",
		"{a: b}":        "5:18: command is a map: write a list, [first, second]",
	}, "}")
}

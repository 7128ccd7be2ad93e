package daemon_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ration-dev/ration/internal/daemon"
	"github.com/ration-dev/ration/internal/setup"
)

// TestAReloadSaysWhatChanged: a reload took new limits and regions
// without a word, and moved to another, empty ledger. It logs a line
// for each change, and refuses to move as a whole; a restart moves, and warns.
func TestAReloadSaysWhatChanged(t *testing.T) {
	s := newStand(t, plentyOfUnits, "[{trending: {pages: 1}}]", "US", "GB")
	s.write("key", "the-first-key\n")
	delete(s.env, "YOUTUBE_API_KEY")
	keyFile := func(schedule *daemon.Schedule) { schedule.KeyFile = filepath.Join(s.dir, "key") }
	d := s.serve(keyFile)
	d.says(`msg=serving regions=2`)
	d.says(passOf("US", "complete"))
	d.says(passOf("GB", "complete"))

	changed := strings.NewReplacer("limit: 9500, window: 24h", "limit: 9000, window: 23h, except: [channels.list]",
		"videos.list: 1", "videos.list: 2").Replace(s.read("costs.yaml")) +
		"when_ledger_down: {default: {allow: 7}}\n"
	s.write("costs.yaml", changed)
	s.write("regions.yaml", strings.NewReplacer("GB: {}", "IN: {fetch: [categories]}", "pages: 1",
		"pages: 2").Replace(s.read("regions.yaml")))
	s.write("key", "the-second-key\n")
	d.reload()
	for _, line := range []string{"budget all: limit 9500 -> 9000", "budget all: window 24h -> 23h",
		`budget all: except none -> \[channels.list\]`,
		"cost of videos.list: units 1 -> 2", "when_ledger_down: added, rules all other calls: allow 7",
		"region GB: removed", "region IN: added, .*fetch categories 1", "region US: fetch trending 1 -> trending 2"} {
		d.says(`level=INFO msg="configuration changed" what="` + line)
	}
	d.reload()
	d.says(`msg="configuration read again: nothing changed"`)

	s.write("costs.yaml", strings.NewReplacer("sqlite:ration.db", "sqlite:other.db", "limit: 9000",
		"limit: 8000").Replace(changed))
	d.reload()
	d.says(`level=ERROR msg="configuration not loaded" reason="the files name another ledger, sqlite:.*other.db ` +
		`instead of sqlite:.*ration.db; its budgets know what was spent only if ration ledger copy moved it there`)
	d.says(`level=WARN msg="the old configuration stays in force"`)
	d.ends()
	if text := d.text(); strings.Contains(text, "9000 -> 8000") || strings.Contains(text, "the-first-key") ||
		strings.Contains(text, "the-second-key") ||
		strings.Count(text, "configuration changed") != 8 {
		t.Errorf("it says\n%s", text)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "other.db")); err == nil {
		t.Error("the refused ledger was made")
	}

	again := s.serve(keyFile)
	again.says(`level=WARN msg="empty ledger" reason="the ledger sqlite:.*other.db is empty, and the one that this ` +
		`costs.yaml used before is sqlite:.*ration.db: .*name the old one again"`)
	again.ends()
	third := s.serve(keyFile)
	third.says(`msg=serving`)
	third.ends()
	if strings.Contains(third.text(), "empty ledger") {
		t.Errorf("it warns again:\n%s", third.text())
	}
}

// TestAReloadSaysThatNoConfigurationIsInForce: while the ledger could not be
// opened since the start, a reload said that the old configuration stays in
// force.
func TestAReloadSaysThatNoConfigurationIsInForce(t *testing.T) {
	s := newStand(t, plentyOfUnits, "[{trending: {pages: 1}}]", "US")
	s.write("costs.yaml", "version: 2\n")
	d := s.start(func(ctx context.Context, o *daemon.Options) error {
		o.IsDown = func(error) bool { return true } // as of a ledger's full disk
		return daemon.Proxy(ctx, o, &setup.GatewayOptions{Address: "127.0.0.1:0"})
	})
	d.says(`msg=listening`)
	d.reload()
	d.says(`level=WARN msg="no configuration is in force"`)
	if strings.Contains(d.text(), "stays in force") {
		t.Errorf("it says\n%s", d.text())
	}
	d.ends()
}

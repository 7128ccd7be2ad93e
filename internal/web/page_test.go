package web_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/internal/web"
	"github.com/ration-dev/ration/quota"
)

// refuse makes a budget refuse a call, and sets a cooldown.
func (s *scene) refuse() {
	s.t.Helper()
	call, err := s.Table().Call("", "search.list")
	if err != nil {
		s.t.Fatal(err)
	}
	call.Caller = quota.Caller{Lane: "cron", Region: "DE", Job: "search:music"}
	for err == nil {
		_, err = s.Guard().Spend(s.t.Context(), call)
	}
	if err := s.Guard().Cool(s.t.Context(), quota.Cooldown{Account: "my-project", Budget: "youtube-search",
		For: 40 * time.Minute, Reason: "403 quotaExceeded"}); err != nil {
		s.t.Fatal(err)
	}
}

// finishPass enters a finished pass in the catalogue, and one that has begun.
func (s *scene) finishPass(region string) {
	s.t.Helper()
	s.finishPassBy(region, time.Now)
}

func (s *scene) finishPassBy(region string, now func() time.Time) {
	s.t.Helper()
	store, err := catalog.Open(filepath.Join(s.state, "catalog.db"), &catalog.Options{Now: now})
	if err != nil {
		s.t.Fatal(err)
	}
	defer store.Close()
	tick := now().Add(-time.Hour).Truncate(time.Minute)
	for _, name := range []string{region, region + "2"} {
		page := catalog.Page{Region: name, Tick: tick, Step: "trending", Method: "videos.list",
			Videos: []catalog.Video{{ID: "v", Title: "A video"}}, Next: "2"}
		if err := store.Commit(s.t.Context(), page); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := store.FinishPass(s.t.Context(), region, tick); err != nil {
		s.t.Fatal(err)
	}
}

// shownBudget is what the page shows of a budget, and what ration status --json
// says.
type shownBudget struct {
	Account, Name                string
	Used, Remaining, Limit, Kept quota.Units
	Returns                      []usage.Return
	Who                          map[string]map[string]quota.Units // by dimension; "floor" has what is reserved
}

// readBudgets is JavaScript that returns the budgets of a page.
const readBudgets = `JSON.stringify([...document.querySelectorAll('tbody[data-budget]')].map(b => {
	const value = (e, of) => Number(e.querySelector('[data-is=' + of + '] data')?.value ?? 0);
	return {
		Account: b.dataset.account, Name: b.dataset.budget,
		Used: value(b, 'used'), Remaining: value(b, 'remaining'), Limit: value(b, 'limit'), Kept: value(b, 'kept'),
		Returns: [...b.querySelectorAll('[data-is=return]')].map(r => ({at: r.querySelector('time').dateTime, units: Number(r.querySelector('data').value)})),
		Who: Object.fromEntries([...b.querySelectorAll('table[data-by]')].map(t => [t.dataset.by, Object.fromEntries([...t.tBodies[0].rows].map(r => [r.cells[0].textContent, Number([...r.querySelectorAll('data')].pop().value)]))])),
	};
}))`

func (p *tab) budgets() (shown []shownBudget) {
	p.t.Helper()
	text, _ := p.eval(readBudgets).(string)
	if err := json.Unmarshal([]byte(text), &shown); err != nil {
		p.t.Fatalf("%v: %s", err, text)
	}
	return shown
}

// status returns what ration status --json says, through JSON.
func (s *scene) status() (said []shownBudget) {
	s.t.Helper()
	found, err := usage.Status(s.t.Context(), s.Guard())
	if err != nil {
		s.t.Fatal(err)
	}
	for i := range found {
		text, err := json.Marshal(usage.NewBudgetReport(&found[i]))
		if err != nil {
			s.t.Fatal(err)
		}
		var r usage.BudgetReport
		if err := json.Unmarshal(text, &r); err != nil {
			s.t.Fatal(err)
		}
		b := shownBudget{Account: r.Account, Name: r.Name, Used: r.Used, Remaining: r.Remaining, Limit: r.Limit,
			Returns: r.NextFree, Who: map[string]map[string]quota.Units{}}
		for _, one := range r.Breakdowns() {
			by, sums := one.By, one.Sums
			if len(sums) > 0 {
				b.Who[by] = sums
			}
		}
		if r.Used > 0 && len(r.Floors) > 0 {
			b.Who["floor"] = map[string]quota.Units{}
			for region, f := range r.Floors {
				b.Kept += f.Kept
				b.Who["floor"][region] = f.Kept
			}
			b.Kept = min(b.Kept, b.Remaining)
		}
		said = append(said, b)
	}
	return said
}

// TestThePageShowsWhatStatusSays: with JavaScript and without, all budgets with
// what is used, reserved and left, when it returns, and who spent it.
func TestThePageShowsWhatStatusSays(t *testing.T) {
	p := newTab(t)
	file := filepath.Join(t.TempDir(), "ration.db")
	past(t, file, time.Now())
	s := newScene(t, sceneOptions{ledger: file, regions: sceneRegions})
	s.spend("videos.list", "US", "trending", 3)
	s.refuse()
	for _, scripts := range []bool{true, false} {
		p.script(scripts)
		p.visit(s.url + "/")
		p.until("document.querySelector('tbody[data-budget] table[data-by]')")
		if diff := cmp.Diff(s.status(), p.budgets()); diff != "" {
			t.Errorf("with scripts %v, status says - and the page shows +:\n%s", scripts, diff)
		}
	}
	text := fmt.Sprint(p.eval("document.body.innerText"))
	contains(t, text, "Times are in UTC.", "youtube-search-burst", "planned", "nothing is owed to the ledger")
	if html := fmt.Sprint(p.eval("document.body.outerHTML")); strings.Contains(html, "%!") ||
		strings.Contains(html, "cannot be shown") {
		t.Errorf("a part is not rendered: %s", html)
	}
	p.visit(s.url + "/?q=region:IN+search#log-title")
	p.until("document.querySelectorAll('#found tbody tr').length > 3")
	if others := p.eval("[...document.querySelectorAll('#found tbody tr')].filter(r => " +
		"r.cells[r.cells.length-3].textContent !== 'IN' || !r.innerText.includes('search')).length"); others != 0.0 {
		t.Errorf("%v entries do not match what was searched", others)
	}
}

// TestDaysComeFromTheHistory: the last seven days are those of the catalogue,
// which outlives the log, with the seven before behind them.
func TestDaysComeFromTheHistory(t *testing.T) {
	p := newTab(t)
	s := newScene(t, sceneOptions{})
	p.visit(s.url + "/?days=7")
	p.until("document.querySelector('figcaption').innerText.includes('no history yet')")
	s.spend("videos.list", "US", "trending", 3)
	s.spend("search.list", "IN", "search:music", 2)
	store, err := catalog.Open(filepath.Join(s.state, "catalog.db"), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := usage.FillHistory(t.Context(), store, s.Guard(), s.Table().Accounts()); err != nil {
		t.Fatal(err)
	}
	s = newScene(t, sceneOptions{catalog: filepath.Join(s.state, "catalog.db")})
	p.visit(s.url + "/?days=7&by=job")
	p.until("document.querySelector('.legend data')")
	contains(t, fmt.Sprint(p.eval("document.querySelector('figure').innerText")),
		"Last 7 days 203, the 7 days before 0", "search:music 200", "trending 3")
	p.eval("document.querySelector('figure details').open = true")
	contains(t, fmt.Sprint(p.eval("document.querySelector('figure table').innerText")),
		time.Now().UTC().Format("2006-01-02"))
}

// TestAVisitorWhoLeavesTakesNoHistoryAway: a request that ended while the chart
// of days was drawn left "no history yet" to all others for a minute, and so
// did a catalogue that could not be read.
func TestAVisitorWhoLeavesTakesNoHistoryAway(t *testing.T) {
	s := newScene(t, sceneOptions{})
	s.spend("videos.list", "US", "trending", 3)
	file := filepath.Join(s.state, "catalog.db")
	store, err := catalog.Open(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	if err := usage.FillHistory(t.Context(), store, s.Guard(), s.Table().Accounts()); err != nil {
		t.Fatal(err)
	}
	left, leave := context.WithCancel(t.Context())
	leave()
	s.page.ServeHTTP(httptest.NewRecorder(), httptest.NewRequestWithContext(left, "GET", "/?days=7", nil))
	contains(t, s.fetch("/?days=7").text, `Last 7 days <strong><data value="3">`)

	db, err := sql.Open("sqlite", file)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec("DROP TABLE days"); err != nil {
		t.Fatal(err)
	}
	contains(t, s.fetch("/?days=30").text, "The history could not be read: catalog", "no such table: days")
}

// TestAShadowSaysWhatItWouldRefuse: beside what it holds.
func TestAShadowSaysWhatItWouldRefuse(t *testing.T) {
	s := newScene(t, sceneOptions{every: time.Nanosecond,
		costs: strings.Replace(sceneCosts, "name: youtube-search,", "name: youtube-search, shadow: true,", 1)})
	s.spend("search.list", "US", "search:music", 3)
	want := regexp.MustCompile(`(?s)data-budget="youtube-search">.*<strong>shadow</strong>.*in its window it would ` +
		`have refused no call`)
	for late := time.Now().Add(time.Minute); !want.MatchString(s.fetch("/").text); {
		if time.Now().After(late) {
			t.Fatal(s.fetch("/").text)
		}
	}
}

// TestALowerLimitOfAnotherConfigurationIsShown beside that of this one: the
// page said that the budget cannot be shown.
func TestALowerLimitOfAnotherConfigurationIsShown(t *testing.T) {
	s := newScene(t, sceneOptions{})
	lower := newScene(t, sceneOptions{ledger: filepath.Join(s.state, "ration.db"),
		costs: strings.Replace(sceneCosts, "limit: 1500,", "limit: 200,", 1)})
	s.spend("search.list", "US", "search:music", 1)
	lower.refuse()
	contains(t, s.fetch("/").text, `<data value="1500">1,500</data> here; another configuration asked for `+
		`<data value="200">200</data> within a day`)
}

// TestATimeOfAnotherYearShowsItsYear: a cooldown until January 2031 was shown
// as one until this January.
func TestATimeOfAnotherYearShowsItsYear(t *testing.T) {
	s := newScene(t, sceneOptions{})
	if err := s.Guard().Cool(t.Context(),
		quota.Cooldown{Account: "my-project", Until: time.Date(2031, 1, 2, 3, 4, 5, 0, time.UTC),
			Reason: "long"}); err != nil {
		t.Fatal(err)
	}
	contains(t, s.fetch("/").text,
		`is in cooldown until <time datetime="2031-01-02T03:04:05Z">2031-01-02 03:04:05Z</time>`)
}

// TestAPageWithoutAScheduleLinksToNoPlan links to no plan, which there is none
// of, and names the version.
func TestAPageWithoutAScheduleLinksToNoPlan(t *testing.T) {
	const link = `<a href="/v1/plan">`
	s := newScene(t, sceneOptions{regions: sceneRegions})
	contains(t, s.fetch("/").text, link)
	page := web.New(&web.Options{Client: s.gateway.Acquire, Version: "v1.2.3"})
	defer page.Close()
	w := httptest.NewRecorder()
	page.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	text := w.Body.String()
	if w.Code != 200 || strings.Contains(text, link) {
		t.Errorf("%d, and a link to a plan in %s", w.Code, text)
	}
	contains(t, text, "ration v1.2.3.")
}

// TestUpdatesArrive: a spend, a refusal and a cooldown appear on an open page,
// and the fold that is open and the focus stay. The button lifts the cooldown.
func TestUpdatesArrive(t *testing.T) {
	p := newTab(t)
	s := newScene(t, sceneOptions{every: 50 * time.Millisecond})
	p.visit(s.url + "/")
	p.until("document.querySelector('#live').textContent === 'Live'")
	p.until("document.querySelector('#health dl') && !document.body.innerText.includes('being read')")
	p.eval("document.querySelector('#budget-0-0-more').open = true; document.querySelector('#budget-0-0-more " +
		"summary').focus(); window.same = 1")
	s.spend("videos.list", "US", "trending", 7)
	p.until("document.querySelector('#budget-0-0 [data-is=used] data').value === '7'")
	p.until("document.querySelectorAll('#log tbody tr').length === 7")
	p.until("document.querySelector('.legend').innerText.includes('US 7')")
	p.until("document.querySelector('#runs tbody').innerText.includes('trending')")
	if p.eval("document.querySelector('#budget-0-0-more').open && document.activeElement.parentElement.id === "+
		"'budget-0-0-more'") != true {
		t.Error("the fold is closed, or the focus is lost")
	}
	s.refuse()
	p.until("document.querySelector('#refusals summary')?.innerText.includes('search.list')")
	p.until("document.querySelector('#cooldowns-0 .rel')?.innerText.startsWith('in 39m')")
	if p.eval("window.same") != 1.0 {
		t.Error("the page was loaded again")
	}
	p.eval("document.querySelector('#cooldowns-0 button').click()")
	p.until("!window.same && document.querySelector('#live')?.textContent === 'Live' && " +
		"!document.querySelector('#cooldowns-0 button')")
	if _, held, err := s.Guard().Cooldowns(t.Context(), "my-project"); err != nil || len(held) > 0 {
		t.Errorf("cooldowns %v, %v; want none", held, err)
	}
}

const hostile = `<script>alert(1)</script>"'><img src=x onerror=alert(2)>{{.}}` + "\u202e\n"

// TestHostileNamesAreText: a method, a job, a region and a reason are shown as
// they are, and neither run nor change the page.
func TestHostileNamesAreText(t *testing.T) {
	p := newTab(t)
	s := newScene(t, sceneOptions{every: 50 * time.Millisecond})
	p.visit(s.url + "/?" + url.Values{"call": {hostile}, "q": {hostile}, "by": {hostile}}.Encode())
	call := quota.Call{Account: "my-project", Method: hostile, Units: 1,
		Caller: quota.Caller{Lane: hostile, Job: hostile, Region: hostile}}
	if _, err := s.Guard().Spend(t.Context(), call); err != nil {
		t.Fatal(err)
	}
	if err := s.Guard().Cool(t.Context(), quota.Cooldown{Account: "my-project", Budget: "youtube", For: time.Hour,
		Reason: hostile}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Guard().Spend(t.Context(), call); !errors.Is(err, quota.ErrRefused) {
		t.Fatalf("%v; want a refusal", err)
	}
	p.until("document.querySelector('#refusals summary') && document.querySelector('#cooldowns-0 button') && " +
		"document.querySelector('.legend').innerText.includes('alert')")
	p.visit(s.url + "/?by=method")
	p.until("document.querySelector('#budget-0-0 table[data-by=method]') && document.querySelector('#log tbody tr') " +
		"&& document.querySelector('#live').textContent === 'Live'")
	if found := p.eval("document.querySelectorAll('img, main script').length"); found != 0.0 {
		t.Errorf("%v elements come from names", found)
	}
	shown := strings.ReplaceAll(hostile, "\u202e", `\u202e`)
	if p.eval(fmt.Sprintf("document.querySelector('#budget-0-0 table[data-by=method] td').textContent === %q",
		shown)) != true {
		t.Errorf("the method is shown as %v",
			p.eval("document.querySelector('#budget-0-0 table[data-by=method] td').textContent"))
	}
	for _, line := range p.complaints() {
		t.Errorf("the browser complains: %s", line)
	}
}

// TestScreenshots takes the pictures of docs/page.md. RATION_SCREENSHOTS=1
// keeps them.
func TestScreenshots(t *testing.T) {
	t.Setenv(client.HostEnv, "host-1")
	p := newTab(t)
	file := filepath.Join(t.TempDir(), "ration.db")
	past(t, file, time.Now())
	s := newScene(t, sceneOptions{ledger: file, regions: sceneRegions})
	s.finishPass("US")
	s.spend("videos.list", "US", "trending", 3)
	s.refuse()
	for name, of := range map[string]struct {
		width, height int
		scheme        string
	}{"page": {1200, 860, "light"}, "page-dark": {1200, 860, "dark"}, "page-phone": {390, 844, "light"}} {
		p.dress(of.width, of.height, of.scheme)
		p.visit(s.url + "/?call=search.list&region=DE")
		p.until("document.querySelector('#live').textContent === 'Live' && document.querySelector('.legend data') " +
			"&& document.querySelector('#budget-0-0 table[data-by]')")
		png := p.picture()
		if len(png) < 10_000 {
			t.Errorf("%s has %d bytes", name, len(png))
		}
		if os.Getenv("RATION_SCREENSHOTS") != "" {
			if err := os.WriteFile("../../docs/"+name+".png", png, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

package web_test

import (
	"errors"
	"fmt"
	"html"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/internal/report"
	"github.com/ration-dev/ration/internal/servers"
	"github.com/ration-dev/ration/internal/usage"
	"github.com/ration-dev/ration/internal/web"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/memledger"
)

// TestThePageBeginsWithWhatIsRefused: with the sentence of status, without and
// with JavaScript.
func TestThePageBeginsWithWhatIsRefused(t *testing.T) {
	p := newTab(t)
	s := newScene(t, sceneOptions{every: 50 * time.Millisecond})
	p.visit(s.url + "/")
	p.until("document.querySelector('#live').textContent === 'Live'")
	s.spend("search.list", "US", "search:music", 15)
	call, err := s.Table().Call("", "search.list")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Guard().Spend(t.Context(), call); !errors.Is(err, quota.ErrRefused) {
		t.Fatalf("%v; want a refusal", err)
	}
	p.until("document.querySelector('#state p')")
	found, err := usage.Status(t.Context(), s.Guard())
	if err != nil {
		t.Fatal(err)
	}
	refusing, err := report.Refusing(t.Context(), s.Client, found, found[0].At)
	if err != nil || len(refusing) != 1 {
		t.Fatalf("%v, %v; want one", refusing, err)
	}
	want := refusing[0].Text + "."
	if got := fmt.Sprint(p.eval("document.querySelector('#main').innerText.split('\\n')[0]")); got != want {
		t.Errorf("the page begins with %q; want %q", got, want)
	}
	plain := strings.NewReplacer(`<span class="at">`, "", "</span>", "").Replace(s.fetch("/").text)
	contains(t, plain, html.EscapeString(want))
}

// TestThePageOfADeadLedgerKeepsItsLastValues keeps the last values, without a
// green dot, and has them also if it is opened only then.
func TestThePageOfADeadLedgerKeepsItsLastValues(t *testing.T) {
	p, server := newTab(t), servers.StartRedis(t)
	s := newScene(t, sceneOptions{ledger: server.URL(), every: 50 * time.Millisecond})
	s.spend("search.list", "US", "search:music", 7)
	p.visit(s.url + "/")
	p.until("document.querySelector('#live.on')")
	server.Stop()
	p.until("document.querySelector('#state p') && !document.querySelector('#live.on')")
	if used := p.eval("document.querySelector('#budget-0-0 [data-is=used] data').value"); used != "700" {
		t.Errorf("%v units are used; want 700", used)
	}
	opened := web.New(&web.Options{Client: s.gateway.Acquire})
	defer opened.Close()
	w := httptest.NewRecorder()
	opened.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	contains(t, w.Body.String(), "The ledger is down", "What follows is what this host knows.",
		`data-is="used"><data value="700">`, `Last 24 hours <strong><data value="700">`)
}

// TestAPassHasWhatTheLogHas: a complete pass had 0 pages and 0 videos, and one
// that had never called had 1 page.
func TestAPassHasWhatTheLogHas(t *testing.T) {
	s := newScene(t, sceneOptions{every: time.Nanosecond})
	s.spend("search.list", "US", "search:music", 3)
	s.finishPass("US")
	rows := regexp.MustCompile(`(?s)<div id="passes">.*?</table>`).FindString(s.fetch("/").text)
	cell := func(n int) string { return fmt.Sprintf(`<td class="n"><data value="%d">%[1]d</data></td>`, n) }
	contains(t, rows, `complete</span></td>`+cell(3)+cell(300), `unfinished</span></td>`+cell(0)+cell(0))
}

// TestAPassBeforeTheLogIsUnknown: a ledger that has lost the calls of a pass
// does not say that it made none.
func TestAPassBeforeTheLogIsUnknown(t *testing.T) {
	s := newScene(t, sceneOptions{every: time.Nanosecond})
	s.finishPassBy("US", func() time.Time { return time.Now().Add(-10 * time.Second) })
	const none = `complete</span></td><td class="n">–</td><td class="n">–</td>`
	contains(t, s.fetch("/").text, none)
	s.spend("search.list", "US", "search:music", 3)
	contains(t, s.fetch("/").text, none)
}

// TestEqualRefusalsOfAllHostsAreOne: those of other hosts were missing, and
// those of each region were listed for themselves.
func TestEqualRefusalsOfAllHostsAreOne(t *testing.T) {
	ledger := memledger.Open(nil)
	s := newScene(t, sceneOptions{opened: ledger, every: time.Nanosecond})
	for _, host := range []string{"host-1", "host-2"} {
		guard, err := quota.NewGuard(ledger, s.Table().Budgets(), &quota.Options{Host: host})
		if err != nil {
			t.Fatal(err)
		}
		for _, region := range []string{"DE", "FR"} {
			r := &quota.RefusedError{Account: "my-project", Budget: "youtube-search", Method: "search.list",
				Caller: quota.Caller{Region: region, Job: "search:music"}}
			if err := guard.RecordRefusal(t.Context(), r); err != nil {
				t.Fatal(err)
			}
		}
	}
	text := s.fetch("/").text
	contains(t, text,
		`<strong>search.list</strong> by youtube-search on host-1, host-2 <span class="note">4 refusals, the last`,
		`of search:music for DE, FR.`)
	if n := strings.Count(text, `class="refusal"`); n != 1 {
		t.Errorf("%d groups of refusals; want 1", n)
	}
}

// TestAPhoneNeedNotScrollSideways: at 360 pixels neither the page nor a table
// is wider than the window, with everything folded out. No time is broken, and
// the hosts are shown.
func TestAPhoneNeedNotScrollSideways(t *testing.T) {
	p := newTab(t)
	file := filepath.Join(t.TempDir(), "ration.db")
	past(t, file, time.Now())
	s := newScene(t, sceneOptions{ledger: file, regions: sceneRegions})
	s.finishPass("US")
	s.refuse()
	p.dress(360, 800, "light")
	p.visit(s.url + "/?by=job&call=search.list")
	p.until("document.querySelector('#live').textContent === 'Live'")
	p.eval("document.querySelectorAll('details').forEach(e => e.open = true)")
	wide := p.eval("[document.documentElement, ...document.querySelectorAll('.scroll')].filter(e => e.scrollWidth > " +
		"e.clientWidth).map(e => e.scrollWidth + ' ' + (e.ariaLabel ?? e.tagName)).join()")
	if wide != "" {
		t.Errorf("wider than the window: %v", wide)
	}
	contains(t, fmt.Sprint(p.eval("document.querySelector('.budgets').innerText")), "units, 24 hours, sliding",
		"units, day in Los Angeles")
	if broken := p.eval("[...document.querySelectorAll('time, .at')].filter(e => e.offsetHeight > 30)" +
		".map(e => e.innerText).join()"); broken != "" {
		t.Errorf("broken over lines: %v", broken)
	}
	if n, _ := p.eval("document.querySelectorAll('#state .at').length").(float64); n < 2 {
		t.Errorf("%v times in the first sentence are unbroken; want those since and until which calls are refused", n)
	}
	for _, of := range []string{"runs", "log"} {
		contains(t, fmt.Sprint(p.eval("document.querySelector('#"+of+"').innerText")), "Host")
	}
}

// TestTheChartMarksWhatStops: the limit, the hours with refusals, and a
// cooldown.
func TestTheChartMarksWhatStops(t *testing.T) {
	s := newScene(t, sceneOptions{})
	s.spend("search.list", "US", "search:music", 3)
	contains(t, s.fetch("/").text, `spread evenly: <data value="625">625</data> an hour`, `<path class="limit" d="M0 `)
	s = newScene(t, sceneOptions{})
	s.refuse()
	text := s.fetch("/").text
	contains(t, text, `refusals <data value="1">`, `<path class="refused" d="M464 0h12`,
		`<rect class="cooling" x="480" width="33"`)
}

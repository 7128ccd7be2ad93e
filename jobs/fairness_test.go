package jobs_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/ledgertest"
	"github.com/ration-dev/ration/quota/memledger"
)

// demand is what a region requests at each of its ticks.
type demand struct {
	region          string
	every, offset   time.Duration
	searches, lists int
	floor           quota.Units // 0: none
}

// demands are uneven: two regions request the whole limit, three a quarter of
// it each, two little, and one, at the end of the upstream's day, even less.
var demands = []demand{
	{"US", 15 * time.Minute, 0, 1, 4, 1500},
	{"IN", 15 * time.Minute, 7 * time.Minute, 1, 4, 1500},
	{"GB", time.Hour, 3 * time.Minute, 1, 4, 800},
	{"DE", time.Hour, 23 * time.Minute, 1, 4, 800},
	{"FR", time.Hour, 43 * time.Minute, 1, 4, 800},
	{"BR", 6 * time.Hour, 5 * time.Hour, 3, 4, 600},
	{"AU", 6 * time.Hour, 5 * time.Hour, 3, 4, 600},
	{"CA", 24 * time.Hour, 4 * time.Hour, 5, 20, 520},
}

const days = 30

// market is a set of regions that compete for one budget of a local YouTube.
type market struct {
	t        *testing.T
	clock    *ledgertest.Clock
	rng      *rand.Rand
	upstream *youtubetest.Server
	guard    *quota.Guard
	client   http.Client
	charged  []charged // by the test's own count
	got      map[string]map[int]quota.Units
	refusals int
}

type charged struct {
	at     time.Time
	region string
	units  quota.Units
}

// direct passes requests to a handler without a network.
type direct struct{ http.Handler }

func (d direct) RoundTrip(req *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, req)
	return w.Result(), nil
}

func newMarket(t *testing.T, budgets string) *market {
	t.Helper()
	m := &market{t: t, clock: &ledgertest.Clock{}, rng: rand.New(rand.NewPCG(1, 2)),
		got: map[string]map[int]quota.Units{}}
	// midnight in Los Angeles, twelve days before its day of 25 hours
	m.clock.Set(time.Date(2026, 10, 20, 7, 0, 0, 0, time.UTC))
	m.upstream = youtubetest.New(&youtubetest.Options{Now: m.clock.Now, Exact: true})
	table, err := costs.Parse("costs.yaml", []byte(pricelist+budgets))
	if err != nil {
		t.Fatal(err)
	}
	if m.guard, err = quota.NewGuard(memledger.Open(&memledger.Options{Now: m.clock.Now}), table.Budgets(),
		nil); err != nil {
		t.Fatal(err)
	}
	m.client.Transport = &quota.Transport{Guard: m.guard, Price: table.Price, Base: direct{m.upstream}}
	return m
}

// start is one run of a region's pass.
type start struct {
	at  time.Time
	day int
	demand
}

// starts returns the starts of all regions' ticks in order, each up to five
// minutes late.
func (m *market) starts() []start {
	var all []start
	begin := m.clock.Now()
	for _, d := range demands {
		for at := d.offset; at < days*24*time.Hour; at += d.every {
			all = append(all, start{begin.Add(at + time.Duration(m.rng.Int64N(int64(5*time.Minute)))),
				int(at / (24 * time.Hour)), d})
		}
	}
	slices.SortFunc(all, func(a, b start) int { return a.at.Compare(b.at) })
	return all
}

// play runs all ticks. One in fifty crashes at one of its calls: before it is
// sent (charged but never sent) or after.
func (m *market) play(guaranteed func(at time.Time) bool) {
	for _, s := range m.starts() {
		m.clock.Set(s.at)
		calls := slices.Repeat([]string{"search?type=channel&channelId=none"}, s.searches) // soon answered
		calls = append(calls, slices.Repeat([]string{"videos?chart=mostPopular"}, s.lists)...)
		dies, before := m.rng.IntN(50*len(calls)), m.rng.IntN(2) == 0
		for i, call := range calls {
			m.clock.Add(200 * time.Millisecond)
			units := quota.Units(1)
			if strings.HasPrefix(call, "search") {
				units = 100
			}
			err := m.call(s.region, call, units, i == dies && before)
			if refused, ok := errors.AsType[*quota.RefusedError](err); ok {
				m.refusals++
				m.held(s, units, refused, guaranteed)
				continue // expensive calls are refused first, cheap ones may still fit
			}
			if err != nil {
				m.t.Error(err)
				return
			}
			m.charged = append(m.charged, charged{m.clock.Now(), s.region, units})
			if m.got[s.region] == nil {
				m.got[s.region] = map[int]quota.Units{}
			}
			m.got[s.region][s.day] += units
			if i == dies {
				break
			}
		}
	}
}

func (m *market) call(region, call string, units quota.Units, dies bool) error {
	ctx := quota.WithCaller(m.t.Context(), quota.Caller{Lane: "cron", Region: region})
	if dies {
		method := "videos.list"
		if units > 1 {
			method = "search.list"
		}
		_, err := m.guard.Spend(ctx, quota.Call{Account: "a", Method: method, Units: units})
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://youtube.googleapis.com/youtube/v3/"+call+
		"&part=id&maxResults=1&prettyPrint=false&regionCode="+region, nil)
	if err != nil {
		return err
	}
	req.Header.Set("X-Goog-Api-Key", "k")
	resp, err := m.client.Do(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("the upstream answered %d at %s", resp.StatusCode, m.clock.Now())
	}
	return nil
}

// held checks that no region below its floor was refused.
func (m *market) held(s start, units quota.Units, refused *quota.RefusedError, guaranteed func(at time.Time) bool) {
	if guaranteed == nil || !guaranteed(m.clock.Now()) {
		return
	}
	since := m.clock.Now().Add(-24 * time.Hour)
	if strings.HasSuffix(refused.Budget, "day") {
		since = midnight(m.clock.Now())
	}
	used := quota.Units(0)
	for i := len(m.charged) - 1; i >= 0 && m.charged[i].at.After(since); i-- {
		if m.charged[i].region == s.region {
			used += m.charged[i].units
		}
	}
	if used+units <= s.floor {
		m.t.Errorf("%s at %s: refused %d units with %d of its floor of %d used: %v", s.region, m.clock.Now(), units,
			used, s.floor, refused)
	}
}

var pacific = func() *time.Location {
	zone, err := time.LoadLocation("America/Los_Angeles")
	if err != nil {
		panic(err)
	}
	return zone
}()

// midnight returns the start of the upstream's day.
func midnight(at time.Time) time.Time {
	y, m, d := at.In(pacific).Date()
	return time.Date(y, m, d, 0, 0, 0, 0, pacific)
}

// kept checks the limits against the upstream's own count, and returns the
// minimum and the mean of a day's usage.
func (m *market) kept() (least, mean int64) {
	byDay := map[time.Time]int64{}
	for _, a := range m.upstream.Arrivals() {
		byDay[midnight(a.At)] += a.Units
		if a.Status != http.StatusOK {
			m.t.Errorf("the upstream refused at %s: %d", a.At, a.Status)
		}
	}
	least = 1 << 40
	sum := int64(0)
	for day, units := range byDay {
		if units > 9500 {
			m.t.Errorf("%d units on the upstream's %s", units, day.Format(time.DateOnly))
		}
		sum += units
		least = min(least, units)
	}
	return least, sum / int64(len(byDay))
}

// TestFairnessOverThirtyDays runs uneven regions with late ticks and crashes
// against the local YouTube, which counts by its own day. docs/fairness.md
// shows the table that it logs.
func TestFairnessOverThirtyDays(t *testing.T) {
	if testing.Short() {
		t.Skip("simulates thirty days, 7 seconds")
	}
	var floors strings.Builder
	for _, d := range demands {
		fmt.Fprintf(&floors, "%s: %d, ", d.region, d.floor)
	}
	both := "  - {name: log, limit: 9500, window: 24h%s}\n  - {name: day, limit: 9500, window: {day: " +
		"America/Los_Angeles}%s}"
	floor := ", floor: {" + strings.TrimSuffix(floors.String(), ", ") + "}"
	always := func(at time.Time) bool { return at.Sub(midnight(at)) > quota.DefaultMargin }
	notAtTheEnd := func(at time.Time) bool {
		y, mo, d := at.In(pacific).Date()
		return always(at) && at.Before(time.Date(y, mo, d+1, 0, 0, 0, 0, pacific).Add(-2*time.Hour-quota.DefaultMargin))
	}
	scenes := []*market{newMarket(t, fmt.Sprintf(both, "", "")), newMarket(t, fmt.Sprintf(both, floor, floor)),
		newMarket(t, "  - {name: day, limit: 9500, window: {day: America/Los_Angeles}"+floor+", floor_until: 2h}")}
	var playing sync.WaitGroup
	for i, guaranteed := range []func(time.Time) bool{nil, always, notAtTheEnd} {
		playing.Go(func() { scenes[i].play(guaranteed) })
	}
	playing.Wait()
	var table strings.Builder
	table.WriteString("| region | asks for, a day | floor | without floors: mean, least | sliding and day: mean, " +
		"least | day, floor_until 2h: mean, least |\n|---|---|---|---|---|---|\n")
	for _, d := range demands {
		asked := int64(24*time.Hour/d.every) * int64(100*d.searches+d.lists)
		fmt.Fprintf(&table, "| %s | %d | %d |", d.region, asked, d.floor)
		for _, m := range scenes {
			sum, least := quota.Units(0), quota.Units(1<<40)
			for day := range days {
				sum, least = sum+m.got[d.region][day], min(least, m.got[d.region][day])
			}
			fmt.Fprintf(&table, " %d, %d |", sum/days, least)
		}
		table.WriteByte('\n')
	}
	table.WriteString("| all, by the upstream's count | | |")
	for _, m := range scenes {
		least, mean := m.kept()
		fmt.Fprintf(&table, " %d, %d |", mean, least)
	}
	table.WriteString("\n| refused here | | |")
	for _, m := range scenes {
		fmt.Fprintf(&table, " %d |", m.refusals)
	}
	table.WriteString("\n| refused upstream | | | 0 | 0 | 0 |\n")
	t.Log("\n" + table.String())
	doc, err := os.ReadFile("../docs/fairness.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), table.String()) {
		t.Error("docs/fairness.md has another table")
	}
}

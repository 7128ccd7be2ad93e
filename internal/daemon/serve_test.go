package daemon_test

import (
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/ration-dev/ration/internal/daemon"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

// TestServeWaitsForTheBudget: a budget pays two pages at a time. Serve says
// when it goes on, and does, within the same tick.
func TestServeWaitsForTheBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("waits two seconds for a window")
	}
	t.Parallel()
	s := newStand(t, "{name: all, limit: 2, window: 2s, methods: [videos.list]}", "[{trending: {pages: 4}}]", "US")
	s.write("regions.yaml", "max_wait: 0s\n"+s.read("regions.yaml"))
	d := s.serve()
	d.says(passOf("US", `stopped calls=2 .* reason="all has 0 of 2 units left, .*" retry_at=20`))
	d.says(passOf("US", `complete calls=[12] .* next=20`))
	d.ends()
	if calls := len(s.upstream.Arrivals()); calls != 4 || s.upstream.Total() != 4 {
		t.Errorf("%d calls reached the upstream, which counted %d units; want the chart's four pages", calls,
			s.upstream.Total())
	}
	if refusal, err := s.setup().LastRefusal(); err != nil || refusal == nil ||
		!regexp.MustCompile("^all has 0 of 2 units left").MatchString(refusal.Message) {
		t.Errorf("for why there is %+v, %v", refusal, err)
	}
}

// TestServeTellsLevels: serve reports each level that a budget crosses once,
// whichever process spent the units.
func TestServeTellsLevels(t *testing.T) {
	s := newStand(t, "{name: all, limit: 5, window: 24h, methods: [videos.list]}", "[{trending: {pages: 4}}]", "US")
	for _, want := range []string{"80 % of 5 units (4)", "95 % of 5 units (5)", ""} {
		d := s.serve()
		d.says(passOf("US", "(complete|skipped)"))
		d.ends()
		told := regexp.MustCompile(`(?m)level=WARN msg="budget crosses a level" reason="all has used (.*); more `+
			`frees at 20`).FindAllStringSubmatch(d.text(), -1)
		if want == "" && told != nil || want != "" && (len(told) != 1 || told[0][1] != want) {
			t.Errorf("told %q; want %q once:\n%s", told, want, d.text())
		}
		s.spend("videos.list", 1)
	}
}

// TestServeMakesNoCallInACooldown: what the upstream said to another process
// holds here: no call is made, and the log says until when.
func TestServeMakesNoCallInACooldown(t *testing.T) {
	s := newStand(t, plentyOfUnits, "[{trending: {pages: 1}}]", "US")
	s.upstream.Fail(youtubetest.Fault{Method: "videos.list", Status: http.StatusForbidden, Reason: "quotaExceeded",
		Times: 1})
	d := s.serve()
	d.says(passOf("US", "stopped calls=1 .*quotaExceeded"))
	d.ends()
	before := len(s.upstream.Arrivals())
	d = s.serve()
	d.says(`msg="pass does not start" region=US .* outcome=stopped calls=0 .*is in cooldown.*quotaExceeded.* ` +
		`retry_at=20`)
	d.ends()
	if after := len(s.upstream.Arrivals()); after != before {
		t.Errorf("%d calls went to an upstream that had said stop", after-before)
	}
}

// TestServeOutlivesItsLedger: with no ledger at all it says so, does not end,
// and calls nobody.
func TestServeOutlivesItsLedger(t *testing.T) {
	if testing.Short() {
		t.Skip("waits three seconds for a ledger that is down")
	}
	t.Parallel()
	s := newStand(t, plentyOfUnits, "[{trending: {pages: 1}}]", "US")
	s.env["RATION_LEDGER"] = "redis://127.0.0.1:1/0"
	d := s.serve()
	d.says(`level=ERROR ` + passOf("US", "failed calls=0 .* retry_at=20"))
	d.ends()
	if got := len(s.upstream.Arrivals()); got != 0 {
		t.Errorf("%d calls went out without a ledger", got)
	}
}

// TestServeOutlivesItsCatalogue: the catalogue is deleted between two pages.
// The pass fails, and the next one writes to a new catalogue.
func TestServeOutlivesItsCatalogue(t *testing.T) {
	if testing.Short() {
		t.Skip("waits two seconds for a window")
	}
	t.Parallel()
	s := newStand(t, "{name: all, limit: 2, window: 2s, methods: [videos.list]}", "[{trending: {pages: 4}}]", "US")
	s.write("regions.yaml", "max_wait: 0s\n"+s.read("regions.yaml"))
	d := s.serve()
	d.says(passOf("US", "stopped calls=2 "))
	for _, end := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(filepath.Join(s.dir, "catalog.db"+end)); err != nil {
			t.Fatal(err)
		}
	}
	d.says(passOf("US", "failed .*was deleted or replaced"))
	d.says(`level=WARN msg="opening the catalogue again"`)
	d.says(passOf("US", "(complete|stopped) calls=[12] "))
	d.ends()
	if _, err := os.Stat(filepath.Join(s.dir, "catalog.db")); err != nil {
		t.Error(err)
	}
}

// TestServeDoesWithoutAnOptionalPort: another program has the address of the
// gateway. Serve does without one that is optional, and fails if it is not.
func TestServeDoesWithoutAnOptionalPort(t *testing.T) {
	s := newStand(t, plentyOfUnits, "[{trending: {pages: 1}}]", "US")
	first := s.serve()
	first.says("msg=listening")
	taken := func(optional bool) func(*daemon.Schedule) {
		return func(schedule *daemon.Schedule) {
			schedule.Gateway.Address, schedule.Optional = first.url[len("http://"):], optional
		}
	}
	second := s.serve(taken(true))
	second.says(`level=WARN msg="no gateway" reason="listen on 127.0.0.1:`)
	second.says("msg=serving")
	second.ends()
	third := s.serve(taken(false))
	if <-third.stopped; third.err == nil {
		t.Error("it does without the gateway that it was told to have")
	}
	first.ends()
}

// TestUnreadableReplicaIsReported: what a client reported while the
// configuration was being loaded, such as a replica that is not a folder, ended
// serve and proxy with a nil pointer.
func TestUnreadableReplicaIsReported(t *testing.T) {
	s := newStand(t, plentyOfUnits, "[{trending: {pages: 1}}]", "US")
	s.write("replica", "a file")
	d := s.serve()
	d.says(`level=WARN msg="replica failing" reason="this host's copy of the ledger: `)
	d.says(passOf("US", "complete calls=1"))
	d.ends()
	d = s.proxy()
	d.says(`msg="replica failing"`)
	d.says("msg=listening")
	d.ends()
}

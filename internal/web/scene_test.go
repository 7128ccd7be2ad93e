package web_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/internal/setup"
	"github.com/ration-dev/ration/internal/testledger"
	"github.com/ration-dev/ration/internal/web"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/sqliteledger"
)

const sceneCosts = `
version: 1
upstream: youtube
account: my-project
api: youtube/v3
hosts: [www.googleapis.com]
resets: {day: America/Los_Angeles}
unlisted: refuse
history: 3d
costs: {search.list: 100, videos.list: 1, channels.list: 1, videoCategories.list: 1}
budgets:
  - {name: youtube, limit: 15000, window: 24h, floor: {IN: 3200, BR: 2800}}
  - {name: youtube-day, limit: 15000, window: {day: America/Los_Angeles}}
  - {name: youtube-search, limit: 12000, window: 24h, methods: [search.list]}
  - {name: youtube-search-burst, limit: 1500, window: 10m, methods: [search.list]}
`

const sceneRegions = `
version: 1
schedule: "0 */4 * * *"
fetch: [trending: {pages: 4}, search: {queries: [music], pages: 1}, channels: {pages: 2}]
regions: {US: {}, GB: {schedule: "20 */4 * * *"}, IN: {schedule: "40 */3 * * *"}, DE: {}, FR: {}, BR: {schedule: "10 */6 * * *"}}
`

// scene is a page on a real ledger, behind a real gateway.
type scene struct {
	*client.Client
	t       *testing.T
	page    *web.Page
	gateway *gateway.Gateway
	url     string
	state   string
}

// sceneOptions change a scene.
type sceneOptions struct {
	costs, regions string
	token          string
	ledger         string       // a file; "" is a new one
	catalog        string       // a file; "" is one in the state folder
	opened         quota.Ledger // in place of a file
	every          time.Duration
}

func newScene(t *testing.T, o sceneOptions) *scene {
	t.Helper()
	if o.costs == "" {
		o.costs = sceneCosts
	}
	s := &scene{t: t, state: t.TempDir()}
	file := filepath.Join(s.state, "costs.yaml")
	if err := os.WriteFile(file, []byte(o.costs), 0o600); err != nil {
		t.Fatal(err)
	}
	table, err := costs.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if o.catalog == "" {
		o.catalog = filepath.Join(s.state, "catalog.db")
	}
	switch {
	case o.ledger == "":
		o.ledger = "sqlite:" + filepath.Join(s.state, "ration.db")
	case !strings.Contains(o.ledger, "://"):
		o.ledger = "sqlite:" + o.ledger
	}
	c, err := client.New(table, &client.Options{Ledger: o.ledger, State: s.state, Opened: o.opened,
		Replica: filepath.Join(s.state, "replica")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	s.Client, s.gateway = c, gateway.New(&gateway.Options{Token: o.token})
	s.page = web.New(&web.Options{Client: s.gateway.Acquire, Token: o.token, Every: o.every, Catalog: o.catalog,
		Region: setup.SpellRegion,
		Regions: func(*costs.Table) ([]jobs.Region, error) {
			if o.regions == "" {
				return nil, nil
			}
			config, err := jobs.Parse("regions.yaml", []byte(o.regions), nil)
			if err != nil {
				return nil, err
			}
			return config.Regions, nil
		}})
	s.gateway.HandlePage(s.page)
	s.gateway.Use(c)
	s.serve()
	return s
}

func (s *scene) serve() {
	s.t.Helper()
	listener, url, err := gateway.Listen("127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- gateway.Serve(ctx, listener, s.gateway, 5*time.Second) }()
	s.url = url
	s.t.Cleanup(func() {
		s.page.Close()
		stop()
		if err := <-served; err != nil {
			s.t.Error(err)
		}
		s.gateway.Release(s.Client)
	})
}

// spend spends calls now.
func (s *scene) spend(method, region, job string, calls int) {
	s.t.Helper()
	call, err := s.Table().Call("", method)
	if err != nil {
		s.t.Fatal(err)
	}
	call.Caller = quota.Caller{Lane: "cron", Job: job, Region: region}
	for range calls {
		if _, err := s.Guard().Spend(s.t.Context(), call); err != nil {
			s.t.Fatal(err)
		}
	}
}

// past fills a ledger with two days of passes until now.
func past(t *testing.T, file string, now time.Time) {
	t.Helper()
	at := now.Add(-48 * time.Hour)
	l, err := sqliteledger.Open(file,
		&sqliteledger.Options{Now: func() time.Time { return at }, Sync: sqliteledger.Normal})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	random := rand.New(rand.NewPCG(1, 1))
	regions := []string{"US", "GB", "IN", "DE", "FR", "BR"}
	for hour := range 48 {
		begin := now.Add(time.Duration(hour-48) * time.Hour)
		var calls []quota.Call
		for i, region := range regions {
			if (begin.Hour()+i)%4 != 0 && random.IntN(4) > 0 {
				continue
			}
			caller := quota.Caller{Lane: "cron", Region: region}
			add := func(method, job string, units quota.Units, count int) {
				caller.Job = job
				for range count {
					calls = append(calls, quota.Call{Account: "my-project", Method: method, Units: units,
						Caller: caller})
				}
			}
			add("videos.list", "trending", 1, 2+random.IntN(4))
			add("search.list", "search:music", 100, 1+random.IntN(3)/2)
			add("channels.list", "channels", 1, random.IntN(5))
		}
		if len(calls) == 0 {
			continue
		}
		at = begin.Add(time.Duration(random.IntN(40)) * time.Minute)
		testledger.Fill(t, l, calls...)
	}
}

// get returns the page as it is without a browser.
func (s *scene) fetch(path string, change ...func(*request)) *response {
	s.t.Helper()
	return fetch(s.t, "GET", s.url+path, "", change...)
}

func contains(t *testing.T, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%q is missing in\n%s", word, fmt.Sprintf("%.3000s", text))
		}
	}
}

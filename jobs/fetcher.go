package jobs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/catalog"
	"github.com/ration-dev/ration/internal/command"
	"github.com/ration-dev/ration/jobs/youtube"
	"github.com/ration-dev/ration/quota"
)

// api is the upstream, by its name in costs.yaml, that steps fetch from.
const api = "youtube/v3"

// retries is how often a Runner sends a request again whose answer
// is transient.
const retries = 1

// Fetcher makes Runners. It provides what their steps need: the guarded client,
// the API key, Google's client, the catalogue and what programs use. Client and
// Catalog are required; the Fetcher closes neither. It is safe for concurrent
// use. Do not change its fields once it is used.
type Fetcher struct {
	Client  *client.Client
	Catalog *catalog.Catalog
	Config  *Config // how long calls may wait; nil is the defaults of regions.yaml

	// Key returns the API key for a request to the upstream's hosts, and "" for
	// none; nil sends none.
	Key      func() (string, error)
	Endpoint string            // base URL of a server that gets the calls instead, priced by Table.WithEndpoint
	Base     http.RoundTripper // nil is youtube.NewBase
	Now      func() time.Time  // nil is time.Now

	ClaimTime time.Duration // as in Runner

	Gateway command.Gateway // through which programs are guarded; nil gives them none
	Environ []string        // the environment of programs; nil is os.Environ

	once sync.Once
	base http.RoundTripper
}

// NewRunner returns a Runner that counts its waits, retries and charges anew,
// as each run does. It returns a *client.ConfigError if costs.yaml does not
// guard the upstream that the YouTube steps of Config fetch from.
func (f *Fetcher) NewRunner(ctx context.Context) (*Runner, error) {
	r := &Runner{Catalog: f.Catalog, Meter: &Meter{}, Now: f.Now,
		Guard: f.Client.Guard(), Table: f.Client.Table(), Gateway: f.Gateway, Host: f.Client.Host(),
		State:   f.Client.State(),
		Environ: f.Environ, ClaimTime: f.ClaimTime}
	if f.Config != nil && !FetchesYouTube(f.Config.Regions) {
		return r, nil
	}
	var err error
	r.Client, err = f.newYouTube(ctx, r.Meter)
	if err != nil {
		return nil, err
	}
	return r, nil
}

// newYouTube returns Google's client, whose calls are charged and metered.
func (f *Fetcher) newYouTube(ctx context.Context, meter *Meter) (*youtube.Client, error) {
	table := f.Client.Table()
	upstream, err := fetchedUpstream(table)
	if err != nil {
		return nil, err
	}
	hosts, endpoint := upstream.Hosts, f.Endpoint
	if endpoint != "" {
		u, err := url.Parse(endpoint)
		if err != nil {
			return nil, &client.ConfigError{Err: err}
		}
		hosts, endpoint = []string{u.Host}, strings.TrimRight(endpoint, "/")+"/"
	}
	guarded := f.Client.NewTransport(func(t *quota.Transport) {
		t.MaxWait = DefaultMaxWait
		t.MaxTotalWait = DefaultMaxTotalWait
		t.Retries = retries
		if f.Config != nil {
			t.MaxWait, t.MaxTotalWait = f.Config.MaxWait, f.Config.MaxTotalWait
		}
		t.Price, t.Charged = guardedOnly(t.Price), meter.Charged
		t.Base = &youtube.KeyTransport{Key: f.Key, Hosts: hosts, Base: f.transport()}
	})
	google, err := youtube.New(ctx, &http.Client{Transport: guarded}, endpoint)
	if err != nil {
		return nil, err
	}
	if u, err := url.Parse(google.BaseURL()); err == nil && table.UpstreamOf(u) == nil {
		return nil, configError("the client of Google calls %s, which costs.yaml does not guard; add its host to hosts",
			google.BaseURL())
	}
	return google, nil
}

// transport returns what sends the requests of all Runners, so that they share
// its connections.
func (f *Fetcher) transport() http.RoundTripper {
	f.once.Do(func() {
		if f.base = f.Base; f.base == nil {
			f.base = youtube.NewBase()
		}
	})
	return f.base
}

func fetchedUpstream(table *costs.Table) (*costs.Upstream, error) {
	for _, u := range table.Upstreams() {
		if u.API == api {
			return &u, nil
		}
	}
	return nil, configError("costs.yaml has no upstream with api: %s, which the jobs fetch from; add one", api)
}

// guardedOnly returns a pricer that lets no request pass unguarded: a job
// has no business with other hosts. A redirect to one is left to
// quota.Transport, which refuses it: that is the upstream's doing and not a
// mistake in costs.yaml.
func guardedOnly(price func(*http.Request) (quota.Call, error)) func(*http.Request) (quota.Call, error) {
	return func(req *http.Request) (quota.Call, error) {
		call, err := price(req)
		if errors.Is(err, quota.ErrUnguarded) && req.Response == nil {
			return call, configError("the call goes to %q, which costs.yaml does not guard; add it to hosts",
				req.URL.Host)
		}
		return call, err
	}
}

func configError(format string, args ...any) error {
	return &client.ConfigError{Err: fmt.Errorf(format, args...)}
}

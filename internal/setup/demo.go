// The demonstration shows what ration does: eight regions fetch from a local
// YouTube, first within their budget, then within one that is too small.

package setup

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"github.com/ration-dev/ration/internal/files"

	"github.com/ration-dev/ration/internal/human"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
	"github.com/ration-dev/ration/quota"
)

//go:embed demofiles
var demoFiles embed.FS

// Stage works in one folder of the demo.
type Stage interface {
	// Act runs all regions and shows what came of it. It returns what broke
	// the run.
	Act(ctx context.Context) error
	// ShowStatus shows what is left.
	ShowStatus(ctx context.Context) error
	// Held returns what the ledger holds of the first budget.
	Held(ctx context.Context) (quota.Units, error)
}

// Demo plays two acts. All fields are required.
type Demo struct {
	Dir      string // an empty folder for files, ledger and catalogue
	Say      func(format string, args ...any)
	NewStage func(dir, endpoint string) Stage
}

// Play plays the demo. It returns an error if that did not show what it should.
func (d *Demo) Play(ctx context.Context) error {
	upstream := youtubetest.New(&youtubetest.Options{Latency: 40 * time.Millisecond})
	server, address, err := serve(upstream)
	if err != nil {
		return err
	}
	defer server.Close()
	d.Say("A local YouTube listens on %s. Everything else is in %s.", address, d.Dir)

	if err := d.enough(ctx, address, upstream); err != nil {
		return err
	}
	return d.tooLittle(ctx, address, upstream)
}

// enough is the first act: the budget pays for all eight regions.
func (d *Demo) enough(ctx context.Context, address string, upstream *youtubetest.Server) error {
	d.Say("\nAct 1: eight regions, one budget of 9500 units\n")
	stage, err := d.stage(d.Dir, "", address)
	if err != nil {
		return err
	}
	if err := stage.Act(ctx); err != nil {
		return err
	}
	if err := stage.ShowStatus(ctx); err != nil {
		return err
	}
	held, err := stage.Held(ctx)
	if err != nil {
		return err
	}
	if int64(held) != upstream.Total() {
		return fmt.Errorf("the upstream counted %s, the ledger holds %d; please report this",
			human.Count(upstream.Total(), "unit"), held)
	}
	d.Say("\nThe upstream counted %s; the ledger holds the same.", human.Count(upstream.Total(), "unit"))
	return nil
}

// tooLittle is the second act: the run breaks, and the next one fetches
// the rest.
func (d *Demo) tooLittle(ctx context.Context, address string, upstream *youtubetest.Server) error {
	d.Say("\nAct 2: the same charts on a budget of 15 units every six seconds\n")
	before := len(upstream.Arrivals())
	stage, err := d.stage(filepath.Join(d.Dir, "small"), "small-", address)
	if err != nil {
		return err
	}
	err = stage.Act(ctx)
	if !errors.Is(err, quota.ErrRefused) {
		return fmt.Errorf("the small budget should have stopped the run (%v); this machine may be too slow, try again",
			err)
	}
	first := len(upstream.Arrivals()) - before
	d.Say("\n%s came. When units are back, the next run resumes:\n", human.Count(first, "page"))
	for errors.Is(err, quota.ErrRefused) { // a slow machine may need a third run
		if err := until(ctx, jobs.RetryAt(err)); err != nil {
			return err
		}
		err = stage.Act(ctx)
	}
	if err != nil {
		return err
	}
	pages := map[string]bool{}
	arrivals := upstream.Arrivals()[before:]
	for _, arrival := range arrivals {
		pages[arrival.Region+" "+arrival.Query.Get("pageToken")] = true
	}
	if len(pages) != len(arrivals) {
		return fmt.Errorf("%s took %s; please report this", human.Count(len(pages), "page"),
			human.Count(len(arrivals), "call"))
	}
	missing := len(arrivals) - first
	d.Say("\nThe next run fetched the %s that %s missing: %s, %s, none twice.", human.Count(missing, "page"),
		human.Was(missing),
		human.Count(len(pages), "page"), human.Count(len(arrivals), "call"))
	return nil
}

// stage returns a Stage in a folder with the configuration of a prefix.
func (d *Demo) stage(dir, prefix, address string) (Stage, error) {
	if err := files.MkdirAll(dir); err != nil {
		return nil, err
	}
	for _, name := range []string{"costs.yaml", "regions.yaml"} {
		data, err := demoFiles.ReadFile("demofiles/" + prefix + name)
		if err != nil {
			return nil, err
		}
		if err := files.Replace(filepath.Join(dir, name), data, false); err != nil {
			return nil, err
		}
	}
	return d.NewStage(dir, address), nil
}

// serve starts an HTTP server on a free loopback port.
func serve(handler http.Handler) (*http.Server, string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, "", err
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	go server.Serve(listener)
	return server, "http://" + listener.Addr().String(), nil
}

// until waits until a time, or until ctx ends.
func until(ctx context.Context, at time.Time) error {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

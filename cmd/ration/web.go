package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"runtime"

	"github.com/ration-dev/ration/cmd/ration/internal/redact"
	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/jobs"
	"github.com/ration-dev/ration/jobs/web"
)

// addPage adds the page to a gateway that is not served yet.
func (a *app) addPage(d *door, token string) {
	o := &web.Options{Client: d.Acquire, Token: token, Redact: redact.URLs}
	if _, err := a.configFile("regions.yaml"); !as[*client.MissingFileError](err) {
		o.Regions = func(table *costs.Table) ([]jobs.Region, error) {
			config, err := a.regions(table)
			if err != nil {
				return nil, err
			}
			return config.Regions, nil
		}
	}
	if dir, err := a.state(); err == nil {
		o.Catalog = filepath.Join(dir, "catalog.db")
	}
	d.page = web.New(o)
	d.HandlePage(d.page)
}

// statusPage serves the page until ctx ends.
func (a *app) statusPage(ctx context.Context, openBrowser bool) error {
	table, err := a.prices()
	if err != nil {
		return err
	}
	return a.withClient(table, false, func(c *client.Client) error {
		d, err := a.openDoor(&listenFlags{address: "127.0.0.1:0", page: true})
		if err != nil {
			return err
		}
		a.warnUnfilled(a.fillHistory(ctx, c))
		defer func() { d.close(); d.Release(c) }()
		d.Use(c)
		d.serve(privateGrace)
		fmt.Fprintf(a.stderr, "ration: the page is at %s/ until you press Ctrl-C\n", d.url)
		if openBrowser {
			browse(d.url + "/")
		}
		<-ctx.Done()
		return nil
	})
}

// browse opens a URL in the user's browser, if there is one.
func browse(url string) {
	opener := map[string]string{"darwin": "open", "windows": "explorer"}[runtime.GOOS]
	if opener == "" {
		opener = "xdg-open"
	}
	cmd := exec.Command(opener, url)
	if err := cmd.Start(); err != nil {
		return // the URL was printed
	}
	go func() { _ = cmd.Wait() }()
}

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/cli"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/jobs/youtube/youtubetest"
)

func (a *app) fakeCommand() *cobra.Command {
	return cli.Group(&cobra.Command{
		Use:   "fake",
		Short: "Serve an upstream that meters like the real one, for tests",
		Long: `Fake serves an upstream on this host that charges and refuses calls as the real
one does, for tests of programs in any language.

` + exitCodes(),
		Example: "  ration fake youtube --limit 100\n  ration fake youtube --help",
	}, a.fakeYouTubeCommand())
}

// fakeFlags are the flags of fake youtube.
type fakeFlags struct {
	youtubetest.Options
	address, model string
	faults         []string
}

// models are the models of the fake YouTube by the names of its presets.
var models = map[string]youtubetest.Model{"legacy": youtubetest.Legacy, "2026-06": youtubetest.Since2026}

func (a *app) fakeYouTubeCommand() *cobra.Command {
	var f fakeFlags
	cmd := &cobra.Command{
		Use:   "youtube",
		Short: "Serve a local YouTube Data API",
		Long: `Fake youtube serves a YouTube Data API v3 with invented videos, which charges
and refuses calls as the real one does. Point a program's endpoint there, or
ration itself with RATION_ENDPOINT. It needs no key of yours and no network, and
keeps nothing. It ends with SIGINT or SIGTERM.

Beside the API, /fake/ shows and sets what a test needs: GET /fake/meter,
/fake/arrivals; POST /fake/faults, /fake/limits, /fake/spend with JSON; DELETE
/fake/faults. docs/fake.md describes them.

` + exitCodes(exitConfig),
		Example: `  ration fake youtube --limit 100
  ration fake youtube --listen 127.0.0.1:0 --latency 50ms --fault status=503,every=10,times=-1`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.fakeYouTube(cmd.Context(), &f) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.address, "listen", "127.0.0.1:8378",
		"`address`: HOST:PORT, where port 0 is any that is free, or unix:PATH")
	flags.StringVar(&f.model, "model", "2026-06",
		"`name` of the costs and limits: 2026-06 or legacy, as in the presets youtube/NAME")
	flags.Int64Var(&f.Limit, "limit", 0, "`units` a day of the default bucket (0: 10000)")
	flags.Int64Var(&f.SearchLimit, "search-limit", 0,
		"`calls` a day of the bucket of searches, in the model 2026-06 (0: 100)")
	cli.DurationVar(flags, &f.Window, "window", "how long a quota lasts (0: the day in Los Angeles)")
	cli.DurationVar(flags, &f.Latency, "latency", "wait before each answer")
	flags.BoolVar(&f.Exact, "exact", false,
		"refuse a call that does not fit; the real one admits it while anything is left")
	flags.StringArrayVar(&f.Keys, "key", nil, "accept only this API `key`; may be repeated (else any)")
	flags.StringArrayVar(&f.faults, "fault", nil,
		"break answers, as `KEY=VALUE,...`: method, region, skip, every, times, delay, status, reason, delivery, "+
			"free; may be repeated")
	return cmd
}

func (a *app) fakeYouTube(ctx context.Context, f *fakeFlags) error {
	model, ok := models[f.model]
	switch {
	case !ok:
		return &cli.Error{Err: fmt.Errorf("--model %q: write 2026-06 or legacy", f.model)}
	case min(f.Limit, f.SearchLimit) < 0 || min(f.Window, f.Latency) < 0:
		return &cli.Error{Err: errors.New("--limit, --search-limit, --window and --latency are 0 or more")}
	case f.SearchLimit > 0 && model == youtubetest.Legacy:
		return &cli.Error{Err: errors.New("--search-limit is for --model 2026-06; in the model legacy, searches are " +
			"charged to --limit")}
	}
	if err := checkListen(f.address); err != nil {
		return err
	}
	var faults []youtubetest.Fault
	for _, text := range f.faults {
		fault, err := youtubetest.ParseFault(text)
		if err != nil {
			return &cli.Error{Err: fmt.Errorf("--fault %s: %w", text, err)}
		}
		faults = append(faults, fault)
	}
	f.Model = model
	upstream := youtubetest.New(&f.Options)
	upstream.Fail(faults...)
	listener, base, err := gateway.Listen(f.address)
	if err != nil {
		return &client.ConfigError{Err: err}
	}
	mux := http.NewServeMux()
	mux.Handle("/", upstream)
	mux.Handle("/fake/", http.StripPrefix("/fake", upstream.Control()))
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	fmt.Fprintf(a.stderr, "ration: a fake YouTube listens on %s\n", base)
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

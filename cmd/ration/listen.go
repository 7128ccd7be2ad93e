package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/cmd/ration/internal/durationflag"
	"github.com/ration-dev/ration/cmd/ration/internal/redact"
	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/gateway"
	"github.com/ration-dev/ration/costs/human"
	"github.com/ration-dev/ration/jobs/web"
	"github.com/ration-dev/ration/quota"
	"github.com/ration-dev/ration/quota/privatefile"
)

// listenFlags are the flags of commands with a gateway for other programs.
type listenFlags struct {
	address   string
	asked     bool // the address was given
	tokenFile string
	hosts     []string
	maxWait   time.Duration
	grace     time.Duration
	page      bool // show the page there
}

const (
	defaultAddress = "127.0.0.1:8377"
	noAddress      = "none"
)

func (f *listenFlags) define(cmd *cobra.Command, none string) {
	flags := cmd.Flags()
	flags.StringVar(&f.address, "listen", defaultAddress, "`address` of the gateway: HOST:PORT, where port 0 is any that is free, or unix:PATH"+none)
	flags.StringVar(&f.tokenFile, "token-file", "", "`file` that holds the token that requests must have (else RATION_TOKEN)")
	flags.StringArrayVar(&f.hosts, "host", nil, "accept requests to this `name` of the host too; may be repeated")
	durationflag.SecondsVar(flags, &f.maxWait, "max-wait", "longest wait of a proxied request for its units, unless it says")
	f.grace = 10 * time.Second
}

func (f *listenFlags) check(cmd *cobra.Command) error {
	f.asked = cmd.Flags().Changed("listen")
	for i, host := range f.hosts {
		if host == "" || strings.ContainsAny(host, "/:@ ") {
			return &usageError{fmt.Errorf("--host %q: write a name without a port, such as ration.internal", host)}
		}
		f.hosts[i] = strings.ToLower(host)
	}
	if f.grace <= 0 || f.grace > 5*time.Minute {
		return &usageError{fmt.Errorf("--grace %s: give more than 0, up to 5m", human.Exactly(f.grace))}
	}
	return nil
}

// shortestToken is the length of the shortest token that may guard a gateway.
const shortestToken = 16

// token returns the token of a gateway, or "" if none is given. It is concealed in
// all that is printed.
func (a *app) token(file string) (string, error) {
	token, where := a.getenv("RATION_TOKEN"), "RATION_TOKEN"
	if file != "" {
		data, err := privatefile.ReadSecret(file)
		if err != nil {
			return "", &configError{fmt.Errorf("token file: %w; name one that holds the token", err)}
		}
		token, where = string(data), "token file "+file
	}
	token = strings.TrimSpace(token)
	a.conceal(token)
	if file == "" && token == "" {
		return "", nil
	}
	if len(token) < shortestToken || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return "", &configError{fmt.Errorf("%s: it must hold a token of %d characters or more on one line; openssl rand -hex 32 makes one", where, shortestToken)}
	}
	return token, nil
}

// door is a gateway that listens.
type door struct {
	*gateway.Gateway
	page     *web.Page // nil: none
	url      string    // of the gateway, for programs of this host
	listener net.Listener
	stop     context.CancelFunc
	done     chan struct{} // closed when it serves no more; nil before it begins
}

// gatewayOptions returns the options of every gateway of the commands.
func (a *app) gatewayOptions(token string) *gateway.Options {
	for _, secret := range redact.ProxyPasswords(a.getenv) {
		a.conceal(secret)
	}
	return &gateway.Options{Token: token, Caller: knownCaller, Endpoint: a.env(a.endpoint, "RATION_ENDPOINT"), Documents: a.documents()}
}

// openDoor opens the gateway that flags describe. It accepts requests once serve
// is called.
func (a *app) openDoor(f *listenFlags) (*door, error) {
	token, err := a.token(f.tokenFile)
	if err != nil {
		return nil, err
	}
	listener, url, err := gateway.Listen(f.address)
	if err != nil {
		return nil, &configError{err}
	}
	if token == "" && gateway.NeedsToken(listener) {
		listener.Close()
		return nil, &configError{fmt.Errorf("listen on %s: programs of other hosts could spend; require a token (--token-file, or RATION_TOKEN), or listen on %s", f.address, defaultAddress)}
	}
	options := a.gatewayOptions(token)
	options.Hosts, options.MaxWait = f.hosts, f.maxWait
	d := &door{Gateway: gateway.New(options), url: url, listener: listener}
	if f.page {
		a.addPage(d, token)
	}
	return d, nil
}

// openPrivateDoor opens and serves a gateway for programs that this process starts.
// Only its sessions may use it.
func (a *app) openPrivateDoor() (*door, error) {
	listener, url, err := gateway.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &door{Gateway: gateway.New(a.gatewayOptions(rand.Text())), url: url, listener: listener}
	d.serve(privateGrace)
	return d, nil
}

// privateGrace is how long requests of a program that has ended may take.
const privateGrace = 2 * time.Second

// serve makes the gateway accept requests, in the background.
func (d *door) serve(grace time.Duration) {
	ctx, stop := context.WithCancel(context.Background())
	d.stop, d.done = stop, make(chan struct{})
	go func() {
		defer close(d.done)
		_ = gateway.Serve(ctx, d.listener, d, grace)
	}()
}

// close ends the gateway, when the requests in flight are answered or the grace is
// over. d may be nil.
func (d *door) close() {
	switch {
	case d == nil:
	case d.done == nil:
		d.listener.Close()
	default:
		if d.page != nil {
			d.page.Close()
		}
		d.stop()
		<-d.done
	}
}

// Open returns the environment of a program that uses the gateway, attributed to
// caller, and what ends its use.
func (d *door) Open(_ context.Context, caller quota.Caller) (env []string, end func() error, err error) {
	s := d.NewSession(caller, quota.Caller{})
	return d.environment(s), func() error { s.End(); return nil }, nil
}

// environment returns the variables in which a program finds its gateway.
func (d *door) environment(s *gateway.Session) []string {
	return []string{"RATION_URL=" + d.url, "RATION_TOKEN=" + s.Token}
}

// checkCredentials checks the credentials of a table before a gateway uses them,
// and keeps them out of what is printed.
func (a *app) checkCredentials(table *costs.Table) error {
	if err := a.checkStrayCredentials(table); err != nil {
		return err
	}
	var failed []error
	for _, u := range table.Upstreams() {
		secret, err := gateway.ReadCredential(u.Credential)
		a.conceal(secret)
		failed = append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return &configError{err}
	}
	return nil
}

// checkStrayCredentials refuses a costs.yaml that only happens to be in the
// working folder and names a file elsewhere: its author would choose the file, and
// the host that gets it.
func (a *app) checkStrayCredentials(table *costs.Table) error {
	path, err := a.configFile("costs.yaml")
	if err != nil || a.env(a.configDir, "RATION_CONFIG") != "" || path != "costs.yaml" {
		return err
	}
	if err := table.CheckCredentials("."); err != nil {
		return &configError{err}
	}
	return nil
}

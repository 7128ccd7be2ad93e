package setup

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/ration-dev/ration/costs"
	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/gateway"
	"github.com/ration-dev/ration/internal/web"
	"github.com/ration-dev/ration/quota"
)

// DefaultAddress is the usual address of a gateway.
const DefaultAddress = "127.0.0.1:8377"

// GatewayOptions describe a gateway for other programs.
type GatewayOptions struct {
	Address   string // as gateway.Listen takes it
	TokenFile string // holds the token; "" is RATION_TOKEN, if it is set
	Hosts     []string
	MaxWait   time.Duration
	Page      bool // show the page there
	Intercept bool // let programs use it as their proxy: see gateway.CA
}

// GatewayServer is a gateway that listens. It accepts requests once Serve is
// called.
type GatewayServer struct {
	*gateway.Gateway
	URL      string    // of the gateway, for programs of this host
	page     *web.Page // nil: none
	listener net.Listener
	stop     context.CancelFunc // nil before it serves
	serving  sync.WaitGroup
}

// shortestToken is the length of the shortest token that may guard a gateway.
const shortestToken = 16

// token returns the token of a gateway, or "" if none is given.
func (s *Setup) token(file string) (string, error) {
	token, where, err := s.secret("RATION_TOKEN", file, "token file", "the token")
	if err != nil || file == "" && token == "" {
		return "", err
	}
	if len(token) < shortestToken || !isPlain(token) {
		return "",
			&client.ConfigError{Err: fmt.Errorf("%s: it must hold a token of %d characters or more on one line; "+
				"openssl rand -hex 32 makes one", where, shortestToken)}
	}
	return token, nil
}

// gatewayOptions returns the options of every gateway.
func (s *Setup) gatewayOptions(token string) *gateway.Options {
	s.ConcealProxies()
	o := &gateway.Options{Token: token, Caller: CheckCaller, Endpoint: s.UpstreamEndpoint()}
	if s.Documents != nil {
		o.Documents = s.Documents()
	}
	return o
}

// OpenGateway opens a gateway for other programs.
func (s *Setup) OpenGateway(o *GatewayOptions) (*GatewayServer, error) {
	token, err := s.token(o.TokenFile)
	if err != nil {
		return nil, err
	}
	listener, url, err := gateway.Listen(o.Address)
	if err != nil {
		return nil, &client.ConfigError{Err: err}
	}
	if token == "" && gateway.NeedsToken(listener) {
		listener.Close()
		return nil,
			&client.ConfigError{Err: fmt.Errorf("listen on %s: programs of other hosts could spend; require a token "+
				"(--token-file, or RATION_TOKEN), or listen on %s", o.Address, DefaultAddress)}
	}
	options := s.gatewayOptions(token)
	options.Hosts, options.MaxWait = o.Hosts, o.MaxWait
	if o.Intercept {
		if options.CA, err = s.openCA(); err != nil {
			listener.Close()
			return nil, &client.ConfigError{Err: err}
		}
	}
	d := &GatewayServer{Gateway: gateway.New(options), URL: url, listener: listener}
	if o.Page {
		s.addPage(d, token)
	}
	return d, nil
}

// openCA opens the authority of the state folder.
func (s *Setup) openCA() (*gateway.CA, error) {
	dir, err := s.MakeState()
	if err != nil {
		return nil, err
	}
	return gateway.OpenCA(dir)
}

// addPage adds the page to a gateway that is not served yet.
func (s *Setup) addPage(d *GatewayServer, token string) {
	o := &web.Options{Client: d.Acquire, Token: token, Redact: s.Clean, Version: s.Version, Region: SpellRegion}
	if s.HasRegions() {
		o.Regions = s.Schedule
	}
	if dir, err := s.StateFolder(); err == nil {
		o.Catalog = catalogIn(dir)
	}
	d.page = web.New(o)
	d.HandlePage(d.page)
}

// OpenPrivateGateway opens and serves a gateway for programs that this process
// starts. Only its sessions may use it.
func (s *Setup) OpenPrivateGateway() (*GatewayServer, error) {
	listener, url, err := gateway.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	d := &GatewayServer{Gateway: gateway.New(s.gatewayOptions(rand.Text())), URL: url, listener: listener}
	d.Serve(PrivateGrace)
	return d, nil
}

// PrivateGrace is how long requests of a program that has ended may take.
const PrivateGrace = 2 * time.Second

// Serve makes the gateway accept requests, in the background. Those in flight
// have grace to end when it is closed.
func (d *GatewayServer) Serve(grace time.Duration) {
	ctx, stop := context.WithCancel(context.Background())
	d.stop = stop
	d.serving.Go(func() { _ = gateway.Serve(ctx, d.listener, d, grace) })
}

// Close ends the gateway, when the requests in flight are answered or the grace
// is over. d may be nil.
func (d *GatewayServer) Close() {
	switch {
	case d == nil:
	case d.stop == nil:
		d.listener.Close()
	default:
		if d.page != nil {
			d.page.Close()
		}
		d.stop()
		d.serving.Wait()
	}
}

// Open implements command.Gateway.
func (d *GatewayServer) Open(ctx context.Context, caller quota.Caller) (env []string, end func() error, err error) {
	s := d.NewSession(caller, quota.Caller{}, "")
	return d.Environment(s), func() error {
		defer s.End()
		return s.Refused(context.WithoutCancel(ctx))
	}, nil
}

// Environment returns the variables in which a program finds its gateway.
func (d *GatewayServer) Environment(s *gateway.Session) []string {
	return []string{"RATION_URL=" + d.URL, "RATION_TOKEN=" + s.Token}
}

// CheckCredentials checks the credentials of a table before a gateway uses
// them, and keeps them out of what is printed.
func (s *Setup) CheckCredentials(table *costs.Table) error {
	if err := s.CheckStrayCredentials(table); err != nil {
		return err
	}
	var failed []error
	for _, u := range table.Upstreams() {
		secret, err := gateway.ReadCredential(u.Credential)
		s.Conceal(secret)
		failed = append(failed, err)
	}
	if err := errors.Join(failed...); err != nil {
		return &client.ConfigError{Err: err}
	}
	return nil
}

// CheckStrayCredentials refuses a costs.yaml that only happens to be in the
// working folder and names a file elsewhere: its author would choose the file,
// and the host that gets it.
func (s *Setup) CheckStrayCredentials(table *costs.Table) error {
	path, err := s.File("costs.yaml")
	if err != nil || s.env(s.Folder, "RATION_CONFIG") != "" || path != "costs.yaml" {
		return err
	}
	if err := table.CheckCredentials(filepath.Dir(table.Path())); err != nil {
		return &client.ConfigError{Err: err}
	}
	return nil
}

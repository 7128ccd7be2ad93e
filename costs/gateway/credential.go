package gateway

import (
	"bytes"
	"fmt"
	"net"
	"net/http"

	"github.com/ration-dev/ration/quota/privatefile"
)

// Credential is added to the requests to one host, in place of what they have
// there. The zero Credential adds nothing.
type Credential struct {
	File   string // holds the secret, for this user alone; read for each request, so that it may change
	Header string // the header, such as Authorization; "" if Query is set
	Prefix string // what the header has before the secret, such as "Bearer "
	Query  string // the query parameter, such as key; "" if Header is set
}

// check returns an error if the file cannot be read.
func (c Credential) check() error {
	if c.File == "" {
		return nil
	}
	_, err := c.read()
	return err
}

func (c Credential) read() (string, error) {
	data, err := privatefile.ReadSecret(c.File)
	if err != nil {
		return "", fmt.Errorf("the upstream's credential: %w", err)
	}
	secret := string(bytes.TrimSpace(data))
	if secret == "" {
		return "", fmt.Errorf("the upstream's credential: %s is empty", c.File)
	}
	return secret, nil
}

// add adds the credential to a request.
func (c Credential) add(r *http.Request) {
	if c.File == "" {
		return
	}
	secret, err := c.read()
	if err != nil {
		return // checked before; the upstream will refuse
	}
	if c.Query != "" {
		query := r.URL.Query()
		query.Set(c.Query, secret)
		r.URL.RawQuery = query.Encode()
		return
	}
	r.Header.Set(c.Header, c.Prefix+secret)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

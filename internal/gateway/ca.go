package gateway

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"path/filepath"
	"sync"
	"time"

	"github.com/ration-dev/ration/internal/files"
)

// CA is a certificate authority of this user alone: with it, the gateway reads
// the requests of programs that use it as their proxy and trust it. It is safe
// for concurrent use.
type CA struct {
	PEM []byte // the certificate, without the key

	cert *x509.Certificate
	key  *ecdsa.PrivateKey

	mu     sync.Mutex
	leaves map[string]*tls.Certificate // by host
}

const (
	caFile     = "intercept-ca.pem" // the certificate and the key; only its owner may read it
	caLife     = 5 * 365 * 24 * time.Hour
	leafLife   = 24 * time.Hour
	certBehind = time.Hour // for clients whose clocks are behind
	maxLeaves  = 1000
)

// OpenCA opens the authority in a state folder, which it makes if there is
// none.
func OpenCA(state string) (*CA, error) {
	path := filepath.Join(state, caFile)
	text, err := files.ReadSecret(path)
	if errors.Is(err, fs.ErrNotExist) {
		if text, err = newCA(); err == nil {
			err = errors.Join(files.MkdirAll(state), files.Replace(path, text, false))
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the authority for --intercept: %w", err)
	}
	ca := &CA{leaves: map[string]*tls.Certificate{}}
	pair, err := tls.X509KeyPair(text, text)
	if err == nil {
		ca.cert, err = x509.ParseCertificate(pair.Certificate[0])
	}
	key, isECDSA := pair.PrivateKey.(*ecdsa.PrivateKey)
	isWhole := err == nil && isECDSA && ca.cert.IsCA
	if !isWhole || time.Now().After(ca.cert.NotAfter) {
		return nil,
			fmt.Errorf("%s is malformed, or has expired; remove it, and let programs trust the new one of ration ca",
				path)
	}
	ca.key = key
	ca.PEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
	return ca, nil
}

// newCA returns a new authority as it is stored.
func newCA() ([]byte, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := template(caLife)
	template.Subject = pkix.Name{CommonName: "ration, for the programs of this user"}
	template.IsCA = true
	template.BasicConstraintsValid = true
	template.MaxPathLenZero = true
	template.KeyUsage = x509.KeyUsageCertSign
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	var text bytes.Buffer
	err = errors.Join(pem.Encode(&text, &pem.Block{Type: "CERTIFICATE", Bytes: cert}),
		pem.Encode(&text, &pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	return text.Bytes(), err
}

func template(life time.Duration) *x509.Certificate {
	serial, _ := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120)) // crypto/rand never fails since Go 1.24
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, NotBefore: now.Add(-certBehind), NotAfter: now.Add(life)}
}

// leaf returns the certificate of a host, which is made when it is first asked
// for.
func (ca *CA) leaf(host string) (*tls.Certificate, error) {
	ca.mu.Lock()
	defer ca.mu.Unlock()
	if known := ca.leaves[host]; known != nil && time.Until(known.Leaf.NotAfter) > leafLife/2 {
		return known, nil
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := template(leafLife)
	template.Subject = pkix.Name{CommonName: host}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	template.KeyUsage = x509.KeyUsageDigitalSignature
	template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, &key.PublicKey, ca.key)
	if err != nil {
		return nil, err
	}
	cert := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	if cert.Leaf, err = x509.ParseCertificate(der); err != nil {
		return nil, err
	}
	if len(ca.leaves) >= maxLeaves {
		clear(ca.leaves)
	}
	ca.leaves[host] = cert
	return cert, nil
}

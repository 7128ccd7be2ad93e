package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/ration-dev/ration/costs/client"
	"github.com/ration-dev/ration/internal/gateway"
)

// systemRoots are where systems keep the certificates that programs trust.
var systemRoots = []string{
	"/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/ca-bundle.pem",
	"/etc/ssl/cert.pem",
}

func (a *app) caCommand() *cobra.Command {
	var bundle bool
	cmd := &cobra.Command{
		Use:   "ca",
		Short: "Print the certificate that programs trust behind proxy --intercept",
		Long: `Ca prints the certificate of this state folder's authority, and makes it if
there is none. ration proxy --intercept guards a program that trusts it and has
HTTPS_PROXY=http://127.0.0.1:8377, unchanged. The key stays in the state folder.
With --bundle, the system's certificates follow, for programs that take one file
in their place.

` + exitCodes(exitConfig),
		Example: `  ration ca > ration-ca.pem
  ration ca --bundle > all.pem && HTTPS_PROXY=http://127.0.0.1:8377 SSL_CERT_FILE=all.pem fetch`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			dir, err := a.setup().MakeState()
			if err != nil {
				return err
			}
			ca, err := gateway.OpenCA(dir)
			if err != nil {
				return &client.ConfigError{Err: err}
			}
			text := ca.PEM
			if bundle {
				roots, err := readFirst(systemRoots)
				if err != nil {
					return err
				}
				text = append(text, roots...)
			}
			_, err = a.stdout.Write(text)
			return err
		},
	}
	cmd.Flags().BoolVar(&bundle, "bundle", false, "print the system's certificates, too")
	return cmd
}

// readFirst returns the first of some files that can be read.
func readFirst(paths []string) ([]byte, error) {
	for _, path := range paths {
		if text, err := os.ReadFile(path); err == nil {
			return text, nil
		}
	}
	return nil, errors.New("the system's certificates were not found; leave out --bundle, and add them yourself")
}

package costs

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ration-dev/ration/internal/strictyaml"
)

// readLedger reads the address of a ledger. It must have a scheme and no
// password. A relative path is resolved relative to costs.yaml. Messages do not
// include the address.
func (d *document) readLedger(n strictyaml.Node) {
	text := n.Text(anything)
	if text == "" {
		return
	}
	scheme, rest, found := strings.Cut(text, ":")
	switch {
	case !found || len(scheme) < 2 || strings.ContainsAny(scheme, "/\\.@ "): // C:\ration.db is a path as well
		n.Mistake("ledger has no scheme: write sqlite:ration.db, redis://host:6379/0 or postgres://user@host/database")
	case hasPassword(text) && strings.HasPrefix(scheme, "postgres"):
		n.Mistake("ledger holds a password: remove it here and put it into ~/.pgpass, or into the environment as " +
			"PGPASSWORD")
	case hasPassword(text):
		n.Mistake("ledger holds a password: remove it here and put it into the environment as RATION_REDIS_PASSWORD")
	case scheme == "sqlite" && strings.HasPrefix(rest, "~"):
		n.Mistake("ledger begins with ~, which only a shell expands: write the whole path")
	case scheme == "sqlite" && (rest == "" || rest[0] == '?'):
		n.Mistake("ledger names no file: write sqlite:ration.db")
	case scheme == "sqlite":
		file, options, _ := strings.Cut(rest, "?")
		if !filepath.IsAbs(file) && !strings.HasPrefix(file, "/") {
			file = filepath.Join(d.dir, file)
		}
		d.ledger = scheme + ":" + file
		if options != "" {
			d.ledger += "?" + options
		}
	default:
		d.ledger = d.resolveFiles(text)
	}
}

// fileParameters name files in the addresses of Redis and Postgres.
var fileParameters = []string{"ca", "cert", "key", "sslrootcert", "sslcert", "sslkey", "passfile"}

// resolveFiles returns the address of a ledger on a server with its files
// resolved relative to costs.yaml.
func (d *document) resolveFiles(address string) string {
	before, query, found := strings.Cut(address, "?")
	if !found {
		return address
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		file, err := url.QueryUnescape(value)
		isNamed := err == nil && file != "" && file != "system"
		isRelative := isNamed && !filepath.IsAbs(file)
		if isRelative && slices.Contains(fileParameters, name) {
			pairs[i] = name + "=" + url.QueryEscape(filepath.Join(d.dir, file))
		}
	}
	return before + "?" + strings.Join(pairs, "&")
}

// hasPassword reports whether an address seems to include a password, in its
// userinfo or query.
func hasPassword(address string) bool {
	if _, after, found := strings.Cut(address, "//"); found {
		if at := strings.LastIndexByte(after, '@'); at >= 0 && strings.Contains(after[:at], ":") {
			return true
		}
	}
	_, query, _ := strings.Cut(strings.ToLower(address), "?")
	query = strings.ReplaceAll(query, "passfile=", "") // a file that holds passwords
	return strings.Contains(query, "pass") || strings.Contains(query, "secret") || strings.Contains(query, "token")
}
